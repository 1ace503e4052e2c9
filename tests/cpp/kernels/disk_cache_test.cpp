#include "runtime/kernels/disk_cache.h"

#include <doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/error.h"
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

void set_mode(const std::string& path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }

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
  CHECK(count_entries(own.folder.path()) == 1);
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
    cache.warn();
    cache.warn();
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
    cache.warn();
    return !stored && warnings == 1 && cache.load(key_of("a")) == "old" ? 0 : 1;
  });
  CHECK(status == 0);
  CHECK(count_entries(folder.path()) == 1);
  CHECK(count_files(folder.path()) == 2);
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
  CHECK(count_entries(folder.path()) == 1);
  CHECK(count_files(folder.path()) == 2);
}

namespace {

std::string last_warning;  // in children only
void keep_warning(const std::string& text) {
  ++warnings;
  last_warning = text;
}

/// Whether the cache in `folder`, which has an entry "a", neither reads nor writes anything, and says once that it is
/// `because`.
bool is_refused(const std::string& folder, const std::string& because) {
  const size_t files = count_files(folder);
  const int status = in_child([&] {
    set_warning_handler(&keep_warning);
    for (int i = 0; i < 2; ++i) {
      const DiskCache cache(folder);
      if (cache.load(key_of("a")) || cache.store(key_of("a"), "new") || cache.store(key_of("b"), "new")) return 2;
      cache.warn();
    }
    if (last_warning.find(because) == std::string::npos) std::fprintf(stderr, "%s\n", last_warning.c_str());
    return warnings == 1 && last_warning.find(because) != std::string::npos ? 0 : 1;
  });
  CHECK(status == 0);
  return status == 0 && count_files(folder) == files;
}

}  // namespace

TEST_CASE("disk cache: a folder that others may write to is neither read nor written") {
  const Folder folder;
  const std::string cache_folder = folder.path() + "/cache";
  const DiskCache cache(cache_folder);
  REQUIRE(cache.store(key_of("a"), "bytes"));
  set_mode(cache_folder, 0777);
  CHECK(is_refused(cache_folder, cache_folder + " is not used"));
  CHECK(is_refused(cache_folder, "it may be written by everybody"));
  set_mode(cache_folder, 01777);  // sticky: nobody removes another's entry, but everybody may add some
  CHECK(is_refused(cache_folder, "it may be written by everybody"));
  set_mode(cache_folder, 0755);
  CHECK(cache.load(key_of("a")) == "bytes");
}

TEST_CASE("disk cache: a folder under one where others may exchange it is refused, under a sticky one it is not") {
  const Folder folder;
  const std::string parent = folder.path() + "/parent", cache_folder = parent + "/made/cache";
  REQUIRE(DiskCache(cache_folder).store(key_of("a"), "bytes"));
  set_mode(parent, 0777);
  CHECK(is_refused(cache_folder, parent + " may be written by everybody"));
  set_mode(parent, 01777);
  CHECK(DiskCache(cache_folder).load(key_of("a")) == "bytes");
  // What stands in front of it decides too: the link and the folder that it lies in.
  set_mode(parent, 0700);
  REQUIRE(::mkdir((folder.path() + "/open").c_str(), 0700) == 0);
  const std::string link = folder.path() + "/open/link";
  REQUIRE(::symlink("../parent/made", link.c_str()) == 0);
  CHECK(DiskCache(link + "/cache").load(key_of("a")) == "bytes");
  set_mode(folder.path() + "/open", 0777);
  CHECK(is_refused(link + "/cache", "/open may be written by everybody"));
}

TEST_CASE("disk cache: an entry or its folder that others may write to is not read") {
  const Folder folder;
  const DiskCache cache(folder.path());
  REQUIRE(cache.store(key_of("a"), "bytes"));
  const std::string file = cache.path(key_of("a")), sub = file.substr(0, file.rfind('/'));
  for (mode_t mode : {0666, 0620}) {
    set_mode(file, mode);
    const int status = in_child([&] {
      set_warning_handler(&keep_warning);
      if (cache.load(key_of("a"))) return 1;
      cache.warn();
      return last_warning.find(file + " is not used") == std::string::npos ? 2 : 0;
    });
    CHECK(status == 0);
  }
  REQUIRE(cache.store(key_of("a"), "mended"));  // by another file, because the folder is this user's
  CHECK(cache.load(key_of("a")) == "mended");
  set_mode(sub, 0770);
  CHECK(!cache.load(key_of("a")));
  CHECK(!cache.store(key_of("a"), "new"));
  set_mode(sub, 0700);
  CHECK(cache.load(key_of("a")) == "mended");
}

TEST_CASE("disk cache: links, devices and FIFOs are no entries, and the next store replaces them") {
  const Folder folder;
  const DiskCache cache(folder.path());
  const std::string file = cache.path(key_of("a")), elsewhere = folder.path() + "/elsewhere";
  REQUIRE(cache.store(key_of("a"), "bytes"));
  std::filesystem::rename(file, elsewhere);
  auto replaced = [&] {
    CHECK(!cache.load(key_of("a")));
    CHECK(cache.store(key_of("a"), "new"));
    CHECK(cache.load(key_of("a")) == "new");
    REQUIRE(::unlink(file.c_str()) == 0);
  };
  for (const std::string& target : {elsewhere, std::string("/dev/zero"), std::string("/dev/tty")}) {
    REQUIRE(::symlink(target.c_str(), file.c_str()) == 0);
    replaced();
  }
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  replaced();
  // A folder that is a link.
  const std::string sub = file.substr(0, file.rfind('/')), other = folder.path() + "/other";
  REQUIRE(cache.store(key_of("a"), "bytes"));
  std::filesystem::rename(sub, other);
  REQUIRE(::symlink(other.c_str(), sub.c_str()) == 0);
  CHECK(!cache.load(key_of("a")));
}

TEST_CASE("disk cache: what belongs to another user or group is neither read nor written") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can give files away");
    return;
  }
  constexpr uid_t kNobody = 65534;
  constexpr gid_t kUnknown = 54321;
  const Folder folder;
  const std::string cache_folder = folder.path() + "/above/cache";
  const DiskCache cache(cache_folder);
  REQUIRE(cache.store(key_of("a"), "bytes"));
  auto give = [](const std::string& path, uid_t user, gid_t group) {
    REQUIRE(::lchown(path.c_str(), user, group) == 0);
  };
  give(cache_folder, kNobody, 0);
  CHECK(is_refused(cache_folder, "it belongs to user 65534"));
  give(cache_folder, 0, kUnknown);
  CHECK(cache.load(key_of("a")) == "bytes");
  set_mode(cache_folder, 0770);
  CHECK(is_refused(cache_folder, "it may be written by group 54321"));
  give(cache_folder, 0, 0);
  set_mode(cache_folder, 0700);
  give(folder.path() + "/above", kNobody, 0);
  CHECK(is_refused(cache_folder, "/above belongs to user 65534"));
  give(folder.path() + "/above", 0, 0);

  const std::string file = cache.path(key_of("a")), sub = file.substr(0, file.rfind('/'));
  for (const std::string& what : {file, sub}) {
    give(what, kNobody, 0);
    CHECK(!cache.load(key_of("a")));
    give(what, 0, 0);
    CHECK(cache.load(key_of("a")) == "bytes");
  }
  const std::string sticky = folder.path() + "/sticky", link = sticky + "/link";
  REQUIRE(::mkdir(sticky.c_str(), 0700) == 0);
  set_mode(sticky, 01777);
  REQUIRE(::symlink(cache_folder.c_str(), link.c_str()) == 0);
  CHECK(DiskCache(link).load(key_of("a")) == "bytes");
  give(link, kNobody, 0);
  CHECK(!DiskCache(link).load(key_of("a")));
}

namespace {

size_t bytes_in(const std::string& folder) {
  size_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file() && file.path().filename() != "size") bytes += (file.file_size() + 4095) / 4096 * 4096;
  return bytes;
}

void set_age(const std::string& file, int hours) {
  const timespec then{::time(nullptr) - 3600 * hours, 0}, times[2] = {then, then};
  REQUIRE(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

constexpr uint64_t kLimit = 1 << 20;

}  // namespace

TEST_CASE("disk cache: over the limit, the entries go that were not used for longest") {
  const Folder folder;
  const DiskCache cache(folder.path(), kLimit);
  const std::string bytes = long_text(30000, 'f');  // 8 pages with what describes them, 32 entries in the limit
  for (int i = 0; i < 32; ++i) {
    REQUIRE(cache.store(key_of(cat(i)), bytes));
    set_age(cache.path(key_of(cat(i))), 100 - i);
  }
  CHECK(count_entries(folder.path()) == 32);
  CHECK(cache.load(key_of("0")) == bytes);  // which is a use
  REQUIRE(cache.store(key_of("32"), bytes));
  CHECK(bytes_in(folder.path()) == kLimit / 4 * 3);
  for (int i : {0, 10, 31, 32}) CHECK(cache.load(key_of(cat(i))) == bytes);
  for (int i : {1, 5, 9}) CHECK(!cache.load(key_of(cat(i))));
}

TEST_CASE("disk cache: entries from before there was a counter, others' files and what killed processes left") {
  const Folder folder;
  const DiskCache cache(folder.path(), kLimit);
  for (int i = 0; i < 60; ++i) REQUIRE(DiskCache(folder.path()).store(key_of(cat(i)), long_text(30000, 'g')));
  const std::string keep = folder.path() + "/notes", sub = folder.path() + "/" + key_of("0").hex.substr(0, 2);
  for (const std::string& file : {keep, sub + "/notes", cache.path(key_of("0")) + ".abcdefgh"}) {
    write_file(file, long_text(2000000, 'h'));
    set_age(file, 1000);
  }
  REQUIRE(::unlink((folder.path() + "/size").c_str()) == 0);
  REQUIRE(cache.store(key_of("last"), "bytes"));
  CHECK(cache.load(key_of("last")) == "bytes");
  CHECK(count_entries(folder.path()) <= kLimit / 32768);
  CHECK(contents(keep).size() == 2000000);
  CHECK(contents(sub + "/notes").size() == 2000000);
  CHECK(!std::filesystem::exists(cache.path(key_of("0")) + ".abcdefgh"));
}

TEST_CASE("disk cache: several processes keep the limit together, and read only whole entries") {
  const Folder folder;
  const std::string bytes = long_text(20000, 'i');
  auto work = [&](int process) {
    const DiskCache cache(folder.path(), kLimit);
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
      wrong += !cache.store(key_of(cat(process, " ", i)), bytes);
      for (int other = 0; other < 4; ++other) {
        const auto seen = cache.load(key_of(cat(other, " ", i)));
        wrong += seen && *seen != bytes;
      }
    }
    return wrong ? 1 : 0;
  };
  std::vector<pid_t> children;
  for (int p = 0; p < 4; ++p) children.push_back(start_child([&, p] { return work(p); }));
  for (pid_t child : children) CHECK(wait_for(child) == 0);
  // What others store while one looks is counted by the next one.
  CHECK(bytes_in(folder.path()) <= kLimit * 5 / 4);
  CHECK(count_entries(folder.path()) >= 20);
}

TEST_CASE("disk cache: its limit comes from the environment") {
  const OwnCache own;
  for (const char* off : {"0", "0G"}) {
    const Environment size("THUNDER_CACHE_SIZE", off);
    CHECK(!DiskCache::open().enabled());
  }
  for (const auto& [text, entries] : {std::pair("40K", 4), std::pair("1M", 20), std::pair("81920", 14)}) {
    const Environment size("THUNDER_CACHE_SIZE", text);
    for (int i = 0; i < 20; ++i) REQUIRE(DiskCache::open().store(key_of(cat(i)), long_text(4000, 'j')));
    CHECK(count_entries(own.folder.path()) <= static_cast<size_t>(entries) + 6);
    CHECK(count_entries(own.folder.path()) >= static_cast<size_t>(entries) - 4);
  }
  for (const char* wrong : {"much", "1X", "-1", "1.5G", "99999999999999T"}) {
    const int status = in_child([&] {
      const Environment size("THUNDER_CACHE_SIZE", wrong);
      set_warning_handler(&keep_warning);
      DiskCache::open().warn();
      return DiskCache::open().enabled() && last_warning.find("THUNDER_CACHE_SIZE") != std::string::npos ? 0 : 1;
    });
    CHECK(status == 0);
  }
}
