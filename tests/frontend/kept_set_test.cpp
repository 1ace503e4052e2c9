// KeptSet (frontend/kept_set.h): objects by their addresses, which the set keeps.
#include "frontend/kept_set.h"

#include "fake_torch.h"

namespace thunder::frontend::test::kept_set_test {

TEST_CASE("KeptSet: an object is new once") {
  KeptSet set;
  const Ref a = Ref::steal(PyList_New(0)), b = Ref::steal(PyList_New(0));
  CHECK_FALSE(set.has(a.get()));
  CHECK(set.add(a.get()));
  CHECK_FALSE(set.add(a.get()));
  CHECK(set.has(a.get()));
  CHECK_FALSE(set.has(b.get()));  // an equal object is another one
}

TEST_CASE("KeptSet: objects stay alive, in the order in which they came") {
  const Ref a = Ref::steal(PyList_New(0)), b = Ref::steal(PyList_New(0));
  const Py_ssize_t before = Py_REFCNT(a.get());
  {
    KeptSet set;
    set.add(b.get());
    set.add(a.get());
    set.add(a.get());
    CHECK(Py_REFCNT(a.get()) == before + 1);
    REQUIRE(set.objects().size() == 2);
    CHECK(set.objects()[0].get() == b.get());
    CHECK(set.objects()[1].get() == a.get());
  }
  CHECK(Py_REFCNT(a.get()) == before);
}

}  // namespace thunder::frontend::test::kept_set_test
