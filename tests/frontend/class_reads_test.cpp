// ClassReads (frontend/class_reads.h): look-ups in classes, classes of objects, code of functions.
#include "frontend/class_reads.h"

#include "environment_parts.h"
#include "python/lookup.h"

namespace thunder::frontend::test::class_reads_test {

struct Fixture : UpToClasses {
  Names names{
      "class A:\n"
      "    x = 1\n"
      "    def f(self): pass\n"
      "class M(A): pass\n"
      "class B(M): pass\n"
      "class Other: pass\n"
      "b = B()\n"
      "def g(k=1): pass\n"};

  void read(const char* type, const char* name) {
    classes.read(names.type(type), str(name).get(), class_attribute(names.type(type), str(name).get()));
  }
  EnvironmentGuard guard() const {
    EnvironmentGuard out;
    classes.watch_types(out);
    classes.watch_classes(out);
    classes.watch_own_entries(out);
    classes.watch_functions(out);
    return out;
  }
};

TEST_CASE_FIXTURE(Fixture, "ClassReads: without reads there is no guard") {
  CHECK(guard().lines().empty());
  CHECK(guard().check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: a look-up becomes a guard on what it found") {
  read("A", "x");
  read("A", "x");
  read("A", "missing");
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"class A: 'x' == 1", "class A: 'missing' absent"});
  names.exec("A.other = 1\n");
  CHECK(environment.check());
  names.exec("A.x = 2\n");
  std::string why;
  CHECK_FALSE(environment.check(&why));
  CHECK(why == "'x' of class A changed");
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: a name that a class gets between it and its base is another") {
  read("B", "x");
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  names.exec("M.x = 1.5\n");
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: classes of C code do not change") {
  classes.read(&PyList_Type, str("append").get(), class_attribute(&PyList_Type, str("append").get()));
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture,
                  "ClassReads: what the program wrote is no read, but classes below it keep their own entries") {
  log.add(Effect::Attribute, names["A"], str("x").get(), integer(1).get());
  read("A", "x");
  CHECK(guard().lines().empty());
  read("B", "x");
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"class B['x'] absent", "class M['x'] absent"});
  names.exec("A.x = 2\n");
  CHECK(environment.check());
  names.exec("B.x = 2\n");
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: an entry below a class that the program wrote to must stay the class's own") {
  names.exec("B.x = 1\n");
  log.add(Effect::Attribute, names["A"], str("x").get(), integer(1).get());
  read("B", "x");
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"class B['x'] == 1"});
  CHECK(environment.check());
  names.exec("del B.x\n");  // a look-up finds the equal value of A
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: of a class that the program made the base is read") {
  fresh.add(names["B"]);
  fresh.add(names["M"]);
  read("B", "x");
  CHECK(guard().lines() == Lines{"class A: 'x' == 1"});
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: super() reads each class up to the one that has the name") {
  const Ref super = names.eval("super(B, b)");
  classes.read_super(super.get(), str("f").get());
  CHECK(guard().lines() == Lines{"class M: 'f' the same function", "class A: 'f' the same function"});
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: iterators in classes came from outside") {
  names.exec("A.it = iter([1])\n");
  CHECK(fresh.made_inside(names.eval("A.it").get()));
  read("A", "it");
  CHECK_FALSE(fresh.made_inside(names.eval("A.it").get()));
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: an object's class") {
  classes.read_type(names["b"]);
  EnvironmentGuard environment = guard();
  CHECK(environment.check());
  names.exec("b.__class__ = Other\n");
  std::string why;
  CHECK_FALSE(environment.check(&why));
  CHECK(why == "an object of class B has another");
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: the class of a fresh object or tensor is no matter") {
  fresh.add(names["b"]);
  classes.read_type(names["b"]);
  const Ref t = tensor({2});
  classes.read_type(t.get());
  EnvironmentGuard environment = guard();
  names.exec("b.__class__ = Other\n");
  CHECK(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: a function's code and defaults") {
  CHECK(classes.read_function(names["g"]));
  CHECK_FALSE(classes.read_function(names["g"]));
  EnvironmentGuard environment = guard();
  CHECK(environment.lines() == Lines{"code and defaults of g"});
  names.exec("g.__defaults__ = (2,)\n");
  CHECK_FALSE(environment.check());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: a function that the program made is its own") {
  fresh.add(names["g"]);
  CHECK_FALSE(classes.read_function(names["g"]));
  CHECK(guard().lines().empty());
}

TEST_CASE_FIXTURE(Fixture, "ClassReads: all that was found can be visited") {
  read("A", "x");
  int ones = 0;
  classes.each_value([&](PyObject* value) { ones += PyLong_Check(value); });
  CHECK(ones == 1);
}

}  // namespace thunder::frontend::test::class_reads_test
