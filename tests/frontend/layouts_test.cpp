// Layouts (frontend/layouts.h): sizes of 1, and what is laid out otherwise for them.
#include "frontend/layouts.h"

#include "fake_torch.h"

namespace thunder::frontend::test::layouts_test {

struct Fixture {
  FakeTorch torch;
  Acquisition acquisition;
  Layouts layouts{acquisition};
  Builder& b = acquisition.builder();
  ShapeEnv& shapes = acquisition.shapes();

  /// A tensor of [s, 4], where `s` is a size that is 1 in some calls.
  Value input() {
    const Dim s = shapes.make_size(3);
    return b.input(tensor_type({s, 4}, {4, 1}));
  }
};

TEST_CASE_FIXTURE(Fixture, "Layouts: memory formats") {
  const TensorType rows = tensor_type({2, 3}, {3, 1}), columns = tensor_type({2, 3}, {1, 2});
  const TensorType image = tensor_type({2, 3, 4, 5}, {60, 1, 15, 3});
  CHECK(Layouts::has_format(rows, "contiguous_format"));
  CHECK_FALSE(Layouts::has_format(columns, "contiguous_format"));
  CHECK(Layouts::has_format(image, "channels_last"));
  CHECK_FALSE(Layouts::has_format(image, "contiguous_format"));
  CHECK_FALSE(Layouts::has_format(rows, "channels_last"));
}

TEST_CASE_FIXTURE(Fixture, "Layouts: nothing is kept where no size may be 1") {
  const TensorType t = tensor_type({2, 3}, {3, 1});
  const ShapeEnv::Scope scope(shapes);
  layouts.keep(t);
  layouts.keep_strides(t);
  layouts.keep_sizes_of_one({b.input(t)});
  CHECK(shapes.guards().empty());
}

TEST_CASE_FIXTURE(Fixture, "Layouts: results that are laid out alike need no guard") {
  const Value x = input();
  acquisition.located([&] { layouts.keep_sizes_of_one({b("torch.relu", x).value()}); });
  CHECK(shapes.guards().empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "Layouts: a copy that would be the tensor itself for a size of 1 is kept where it is shown") {
  const Value x = input();
  const Value copy = acquisition.located([&] {
    const Value turned = b("torch.transpose", x, Arg(0), Arg(1)).value();
    return b("torch.contiguous", turned).value();
  });
  layouts.note_copy(copy, b.calls().back());
  CHECK(shapes.guards().empty());
  acquisition.located([&] { layouts.keep_sizes_of_one({copy}); });
  CHECK_FALSE(shapes.guards().empty());
}

}  // namespace thunder::frontend::test::layouts_test
