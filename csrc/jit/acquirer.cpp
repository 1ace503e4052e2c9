// How attempts to acquire a program follow one another.
#include "jit/acquirer.h"

#include <algorithm>

#include "core/error.h"
#include "jit/varying_programs.h"
#include "runtime/convert.h"

namespace thunder {

namespace {

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>
Cases(F...) -> Cases<F...>;

// What the caller is told of an error.
std::string text_of(const Raised& error) {
  const auto* type = reinterpret_cast<PyTypeObject*>(error.type.get());
  return is_ours(error) ? error.text() : cat(type->tp_name, ": ", error.text());
}

}  // namespace

Acquirer::Result Acquirer::acquire(const Use& use, const Refuse& refuse) {
  begin();
  while (true) {
    Outcome<Entry> outcome = make_entry(use, refuse);
    if (auto* entry = std::get_if<Entry>(&outcome)) {
      if (*entry && (*entry)->kind) (*entry)->kind->not_symbolic = not_symbolic_;
      return std::move(*entry);
    }
    if (auto* failed = std::get_if<Failed>(&outcome)) {
      std::optional<Again> reason = after_numbers(way_.read_varies, text_of(failed->error));
      if (!reason) {
        failed->by_function = raised_;
        return std::move(*failed);
      }
      outcome = std::move(*reason);
    }
    if (std::optional<NeedsEager> eager = start_again(std::get<Again>(outcome))) return std::move(*eager);
  }
}

// Of a program or of a refusal.
Outcome<Acquirer::Entry> Acquirer::make_entry(const Use& use, const Refuse& refuse) {
  return caught<Entry>([&]() -> Outcome<Entry> {
    Outcome<AcquiredProgram> outcome = attempt();
    Entry entry;
    if (auto* program = std::get_if<AcquiredProgram>(&outcome)) entry = use(*program);
    else if (auto* eager = std::get_if<NeedsEager>(&outcome)) entry = refuse(way_.entry, *way_.key, *eager);
    else return reason_of<Entry>(std::move(outcome));
    if (leaves_out_call(entry.get())) return again::NumbersStay{};
    return entry;
  });
}

// How the first attempt takes numbers: as the function's cache, and the programs of calls like this one, say.
void Acquirer::begin() {
  not_symbolic_.clear();
  varying_.reset();
  bool constant = cache_.mode() != CacheMode::SymbolicValues;
  if (cache_.mode() == CacheMode::VaryingValues && !function_.distributed) {
    VaryingNumbers found = find_varying_numbers(cache_, key_.whole());
    if (found.varying.any) {
      cache_.add_to_miss("; what varies becomes symbols: " + found.text);
      constant = !found.not_symbolic.empty();
      not_symbolic_ = std::move(found.not_symbolic);
      varying_ = std::move(found.varying);
    }
  }
  take_numbers({.constant = constant, .reads_vary = may_vary()});
}

void Acquirer::take_numbers(const Numbers& numbers) {
  way_ = {};
  way_.start = std::chrono::steady_clock::now();
  way_.numbers = numbers;
  adopt_default_dtype();
  const bool some = varying_ && !numbers.constant;
  const CallKey& key = some ? key_.whole() : key_;
  way_.key = &key;
  way_.entry = std::make_shared<CacheEntry>();
  if (key.apart == CallKey::Apart::Nothing) return;
  way_.entry->symbols = some ? std::make_unique<Symbols>(key.numbers, varying_->ints, varying_->constant_floats)
                             : std::make_unique<Symbols>(key.numbers, numbers.constant);
  way_.entry->symbols->labels = key.labels();
}

std::optional<NeedsEager> Acquirer::start_again(const Again& reason) {
  std::optional<NeedsEager> eager;
  std::visit(
      Cases{
          [&](const again::OtherKey&) {
            key_ = cache_.key_of(key_.args);
            eager = key_.refused_arguments();
            begin();
          },
          [&](const again::SharedMemory& r) { way_.shared.push_back(r.memory); },
          [&](const again::BeginsToRequireGrad& r) { way_.begin.insert(r.argument); },
          [](const again::KnownSymbols&) {},
          [](const again::DrawsApart&) {},
          [&](const again::LengthsAsk&) { way_.lengths_ask = true; },
          [&](const again::SeemsEager&) { way_.seems_compiled = false; },
          [&](const again::ReadsStay&) { take_numbers({.constant = way_.numbers.constant, .reads_vary = false}); },
          [&](const again::NumbersStay& r) {
            not_symbolic_ = r.why;
            take_numbers({.constant = true, .reads_vary = may_vary()});
          },
      },
      reason);
  return eager;
}

std::optional<Again> Acquirer::after_trace(frontend::Tracer& tracer) const {
  const bool may = !keeping_.once;
  if (tracer.tensors().begins_to_require_grad() && may)
    return again::BeginsToRequireGrad{*tracer.tensors().begins_to_require_grad()};
  const void* shared = tracer.tensors().shared_memory_written();
  if (shared && way_.numbers.constant) return again::SharedMemory{shared};
  // It may be no error at all.
  if (!shared && tracer.shapes().assumed() && !way_.lengths_ask && may) return again::LengthsAsk{};
  if (raised_ && tracer.asked_whether_compiled && way_.seems_compiled && may) return again::SeemsEager{};
  return std::nullopt;
}

std::optional<Again> Acquirer::after_numbers(bool read_varies, const std::string& why) const {
  if (way_.numbers.reads_vary && read_varies && !keeping_.once) return again::ReadsStay{};
  if (!way_.numbers.constant) return again::NumbersStay{why};
  return std::nullopt;
}

// A program whose guards leave out the call, in which a size is 1, is for the others.
bool Acquirer::leaves_out_call(const CacheEntry* e) const {
  return varying_ && !way_.numbers.constant && e && e->symbols && !e->symbols->hold(way_.key->numbers, nullptr);
}

}  // namespace thunder
