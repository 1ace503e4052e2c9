// ArgumentUses (frontend/argument_uses.h): what the program looks at in the objects among its arguments.
#include "frontend/argument_uses.h"

#include "fake_torch.h"
#include "frontend/proxies.h"

namespace thunder::frontend::test::argument_uses_test {

struct Fixture {
  FakeTorch torch;
  Names names{
      "class C: pass\n"
      "class Equal:\n"
      "    def __hash__(self): return 1\n"
      "    def __eq__(self, other): return True\n"
      "given, copy = C(), C()\n"
      "given_list, copy_list = [1], [1]\n"
      "given_equal, copy_equal = Equal(), Equal()\n"};
  ClassUses known;
  ArgumentCopies copies{{names["given"], names["given_list"], names["given_equal"]}, known};
  Ref proxy = new_proxy(tensor_type({2}, {1}));
  ArgumentUses uses;

  void take() {
    copies.made(names["given"], Ref::borrow(names["copy"]));
    copies.made(names["given_list"], Ref::borrow(names["copy_list"]));
    copies.made(names["given_equal"], Ref::borrow(names["copy_equal"]));
    copies.add_tensor(proxy.get());
    uses.take(copies);
  }
  const ClassUse& of(const char* name) { return uses.uses().at(names.type(name)); }
};

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: without arguments nothing is recorded") {
  CHECK_FALSE(uses.any());
  uses.read(names["copy"], str("scale").get());
  uses.ask_identity(names["copy"]);
  uses.ask_everything(names["copy"]);
  uses.read_attribute_of_tensor(proxy.get(), str("tag").get());
  uses.write_attribute_of_tensor(proxy.get(), str("tag").get());
  uses.met(names["given"]);
  CHECK(uses.uses().empty());
  CHECK(uses.themselves().empty());
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: of each argument's class nothing is looked at in the beginning") {
  take();
  CHECK(uses.any());
  CHECK(uses.uses().size() == 2);  // a list is taken apart whatever it holds
  CHECK_FALSE(of("C").wants(str("scale").get()));
  CHECK_FALSE(of("C").identity);
  CHECK_FALSE(is_wanted(uses.uses(), names["given"], str("scale").get()));
  CHECK(is_wanted(uses.uses(), names["given_list"], str("scale").get()));  // of which nothing is known
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: an attribute that is read counts for the class") {
  take();
  uses.read(names["copy"], str("scale").get());
  CHECK(of("C").wants(str("scale").get()));
  CHECK_FALSE(of("C").wants(str("other").get()));
  CHECK_FALSE(of("Equal").wants(str("scale").get()));
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: an object that is no argument's copy does not count") {
  take();
  const Ref another = names.eval("C()");
  uses.read(another.get(), str("scale").get());
  uses.ask_everything(another.get());
  uses.ask_identity(another.get());
  CHECK_FALSE(of("C").wants(str("scale").get()));
  CHECK_FALSE(of("C").identity);
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: everything") {
  take();
  uses.ask_everything(names["copy"]);
  CHECK(of("C").wants(str("whatever").get()));
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: identity is asked unless the class says what equals what") {
  take();
  uses.ask_identity(names["copy"]);
  uses.ask_identity(names["copy_equal"]);
  CHECK(of("C").identity);
  CHECK_FALSE(of("Equal").identity);
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: an argument that is met elsewhere is one object there") {
  take();
  uses.met(names.eval("C()").get());
  uses.met(nullptr);
  uses.met(tensor({2}).get());
  CHECK_FALSE(of("C").identity);
  CHECK(uses.themselves().empty());
  uses.met(names["given"]);
  uses.met(names["given_list"]);
  CHECK(of("C").identity);
  CHECK(uses.themselves().size() == 1);
  CHECK(uses.themselves().count(names["given_list"]) == 1);
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: attributes of an argument tensor that its class has not") {
  take();
  uses.read_attribute_of_tensor(proxy.get(), str("shape").get());
  CHECK(use_of_tensors(&uses.uses()) == nullptr);
  uses.read_attribute_of_tensor(new_proxy(tensor_type({2}, {1})).get(), str("tag").get());
  CHECK(use_of_tensors(&uses.uses()) == nullptr);
  uses.read_attribute_of_tensor(proxy.get(), str("tag").get());
  REQUIRE(use_of_tensors(&uses.uses()) != nullptr);
  CHECK(use_of_tensors(&uses.uses())->wants(str("tag").get()));
  CHECK_FALSE(use_of_tensors(&uses.uses())->wants(str("other").get()));
  uses.read_attribute_of_tensor(proxy.get(), str("__dict__").get());
  CHECK(use_of_tensors(&uses.uses())->wants(str("other").get()));
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: the read of a tensor's attribute may have raised") {
  take();
  PyErr_SetString(PyExc_AttributeError, "tag");
  uses.read_attribute_of_tensor(proxy.get(), str("tag").get());
  CHECK(PyErr_ExceptionMatches(PyExc_AttributeError) == 1);
  PyErr_Clear();
  CHECK(use_of_tensors(&uses.uses())->wants(str("tag").get()));
}

TEST_CASE_FIXTURE(Fixture, "ArgumentUses: attributes that are left in an argument tensor") {
  take();
  uses.write_attribute_of_tensor(proxy.get(), str("requires_grad").get());  // PyTorch's own
  CHECK(use_of_tensors(&uses.uses()) == nullptr);
  uses.write_attribute_of_tensor(proxy.get(), str("tag").get());
  REQUIRE(use_of_tensors(&uses.uses()) != nullptr);
  CHECK(use_of_tensors(&uses.uses())->written);
  CHECK(use_of_tensors(&uses.uses())->wants(str("tag").get()));
}

}  // namespace thunder::frontend::test::argument_uses_test
