#include "runtime/kernels/disk_cache.h"

#include <doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/warning.h"
#include "kernels/scratch.h"
#include "runtime/kernels/content_hash.h"

using namespace thunder;
using namespace kernel_test;

namespace {

CacheKey key_of(const std::string& text) { return CacheKeyBuilder("test").add(text).key(); }

std::string long_text(size_t bytes, char seed) {
  std::string out(bytes, seed);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(seed + i * 31 + (i >> 8));
  return out;
}

// Atomics, because a handler is a plain function; only children of a test look at them.
std::atomic<int> warnings{0};
void count_warning(const std::string&) { ++warnings; }

}  // namespace

TEST_CASE("hashes: SHA-256 gives the digests of FIPS 180-4") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // 56 bytes: the length no longer fits into the last block.
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("hashes: the fast one sees every byte and the length") {
  const std::string text = long_text(100, 'x');
  const uint64_t whole = fast_hash(text);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    CHECK(fast_hash(changed) != whole);
  }
  CHECK(fast_hash(std::string(3, '\0')) != fast_hash(std::string(4, '\0')));
}

TEST_CASE("disk cache: what was stored is loaded, whatever it is") {
  const OwnCache own;
  const DiskCache cache = DiskCache::open();
  CHECK(cache.folder() == own.folder.path());
  CHECK(!cache.load(key_of("a")));
  for (const std::string& bytes : {std::string(), std::string("\0\n\xff", 3), long_text(300000, 'b')}) {
    CHECK(cache.store(key_of("a"), bytes));
    CHECK(cache.load(key_of("a")) == bytes);
  }
  CHECK(!cache.load(key_of("b")));
  CHECK(count_files(own.folder.path()) == 1);
}

TEST_CASE("disk cache: keys tell parts, kinds and numbers apart") {
  CHECK(CacheKeyBuilder("k").add("ab").add("c").key().hex != CacheKeyBuilder("k").add("a").add("bc").key().hex);
  CHECK(CacheKeyBuilder("k").add("a").key().hex != CacheKeyBuilder("l").add("a").key().hex);
  CHECK(CacheKeyBuilder("k").add("").key().hex != CacheKeyBuilder("k").key().hex);
  CHECK(CacheKeyBuilder("k").add(1).key().hex != CacheKeyBuilder("k").add(2).key().hex);
  CHECK(key_of("a").hex == key_of("a").hex);
}

TEST_CASE("disk cache: a damaged entry is missing, and the next store mends it") {
  const OwnCache own;
  const DiskCache cache = DiskCache::open();
  const CacheKey key = key_of("a");
  const std::string bytes = long_text(1000, 'c');
  REQUIRE(cache.store(key, bytes));
  const std::string file = cache.path(key);
  const std::string whole = contents(file);
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] ^= 0x10;
    write_file(file, damaged);
    CHECK(!cache.load(key));
    write_file(file, whole.substr(0, i));
    CHECK(!cache.load(key));
  }
  write_file(file, whole + "x");
  CHECK(!cache.load(key));
  REQUIRE(cache.store(key, bytes));
  CHECK(cache.load(key) == bytes);
}

TEST_CASE("disk cache: an entry under another's name is missing") {
  const OwnCache own;
  const DiskCache cache = DiskCache::open();
  REQUIRE(cache.store(key_of("a"), "bytes"));
  REQUIRE(cache.store(key_of("b"), "other"));
  write_file(cache.path(key_of("b")), contents(cache.path(key_of("a"))));
  CHECK(!cache.load(key_of("b")));
}

TEST_CASE("disk cache: the folder comes from the environment") {
  const Environment own("THUNDER_CACHE_DIR", "/own");
  const Environment xdg("XDG_CACHE_HOME", "/xdg");
  const Environment home("HOME", "/nowhere");
  CHECK(DiskCache::open().folder() == "/own");
  const Environment no_own("THUNDER_CACHE_DIR", std::nullopt);
  CHECK(DiskCache::open().folder() == "/xdg/thunder");
  {
    const Environment relative("XDG_CACHE_HOME", "relative");
    CHECK(DiskCache::open().folder() == "/nowhere/.cache/thunder");
    const Environment no_home("HOME", std::nullopt);
    CHECK(!DiskCache::open().enabled());
    CHECK(!DiskCache::open().store(key_of("a"), "bytes"));
    CHECK(!DiskCache::open().load(key_of("a")));
  }
}

TEST_CASE("disk cache: a folder that cannot be made is one warning") {
  const Folder folder;
  write_file(folder.path() + "/file", "in the way");
  const int status = in_child([&] {
    set_warning_handler(&count_warning);
    const DiskCache cache(folder.path() + "/file/cache");
    bool stored = cache.store(key_of("a"), "bytes");
    stored |= cache.store(key_of("b"), "bytes");
    return !stored && !cache.load(key_of("a")) && warnings == 1 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("disk cache: a write that fails half way leaves the old entry and no other file") {
  const Folder folder;
  const DiskCache cache(folder.path());
  REQUIRE(cache.store(key_of("a"), "old"));
  const int status = in_child([&] {
    set_warning_handler(&count_warning);
    // Stands for a full disk: the first 4096 bytes go through and the next write fails.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const bool stored = cache.store(key_of("a"), long_text(100000, 'd'));
    return !stored && warnings == 1 && cache.load(key_of("a")) == "old" ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(count_files(folder.path()) == 1);
}

TEST_CASE("disk cache: threads and processes that write and read one entry see it whole") {
  const Folder folder;
  const DiskCache cache(folder.path() + "/made/later");
  const std::string bytes = long_text(200000, 'e');
  auto work = [&] {
    int wrong = 0;
    for (int i = 0; i < 40; ++i) {
      wrong += !cache.store(key_of("a"), bytes);
      const auto seen = cache.load(key_of("a"));
      wrong += seen != bytes;
    }
    return wrong;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(start_child([&] { return work() ? 1 : 0; }));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { wrong += work(); });
  for (std::thread& thread : threads) thread.join();
  for (pid_t child : children) CHECK(wait_for(child) == 0);
  CHECK(wrong == 0);
  CHECK(count_files(folder.path()) == 1);
}
