// Temporary folders of processes that begin at the same time: the first use in a process takes away what others left.
#include <doctest.h>

#include <vector>

#include "kernels/scratch.h"
#include "runtime/kernels/files.h"

using namespace thunder;
using namespace kernel_test;

TEST_CASE("private folder: one that is there, and goes with its owner") {
  std::string path;
  {
    const PrivateFolder folder;
    REQUIRE(folder.problem() == 0);
    path = folder.file("");
    CHECK(folder.write("log", "text") == 0);
    CHECK(folder.read("log") == "text");
    CHECK(folder.read("y") == std::nullopt);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("private folder: processes that look for leftovers take none that is being made") {
  const Folder parent;
  const Environment temporary("TMPDIR", parent.path());
  for (int round = 0; round < 30; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i)
      children.push_back(start_child([] {
        for (int k = 0; k < 20; ++k) {
          const PrivateFolder folder;
          if (folder.problem() || folder.write("log", "text") || folder.read("log") != "text") return 1;
        }
        return 0;
      }));
    for (const pid_t child : children) CHECK(wait_for(child) == 0);
  }
  CHECK(std::filesystem::is_empty(parent.path()));
}

TEST_CASE("private folder: where there is no folder for it") {
  const Environment temporary("TMPDIR", "/nowhere/at/all");
  const PrivateFolder folder;
  CHECK(folder.problem() == ENOENT);
}
