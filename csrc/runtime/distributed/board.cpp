#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/distributed/watch.h"

namespace thunder::distributed::detail {

namespace {

constexpr std::chrono::milliseconds kStoreTimeout{2000};

}  // namespace

Board::Board(const std::string& group_name, c10d::ProcessGroup& group)
    : rank_(group.getRank()), store_(group.getStore()) {
  c10::intrusive_ptr<c10d::Store> base = store_;
  if (auto* prefixed = dynamic_cast<c10d::PrefixStore*>(base.get())) base = prefixed->getUnderlyingNonPrefixStore();
  if (dynamic_cast<c10d::TCPStore*>(base.get())) {
    // Who waits for a key holds the connection.
    store_ = store_->clone();
    store_->setTimeout(kStoreTimeout);
  } else if (!dynamic_cast<c10d::FileStore*>(base.get()) && !dynamic_cast<c10d::HashStore*>(base.get())) {
    store_.reset();
    return;
  }
  // These two hold nothing while they wait, and a clone of a FileStore counts as one more worker that has ended.
  // Groups one after the other may have the same name and Store.
  const std::string made = cat("thunder/", group_name, "/made/", rank_);
  prefix_ = cat("thunder/", group_name, "/", store_->add(made, 1), "/");
}

std::vector<std::optional<std::string>> Board::reports(const std::vector<int>& ranks) {
  std::vector<std::string> keys;
  for (int r : ranks) keys.push_back(key(cat("alive/", r)));
  std::vector<std::optional<std::string>> out;
  if (keys.empty()) return out;
  if (store_->hasExtendedApi() && store_->check(keys)) {
    for (const auto& bytes : store_->multiGet(keys)) out.emplace_back(std::string(bytes.begin(), bytes.end()));
  } else {
    for (int r : ranks) out.push_back(read(cat("alive/", r)));
  }
  return out;
}

}  // namespace thunder::distributed::detail
