#include "passes/distributed/cost_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "core/error.h"
#include "passes/distributed/call_cost.h"
#include "passes/visit.h"

namespace thunder::distributed {
namespace {

constexpr std::array<std::pair<std::string_view, Arithmetic>, 4> kKinds = {
    {{"product", Arithmetic::Product},
     {"convolution", Arithmetic::Convolution},
     {"attention", Arithmetic::Attention},
     {"attention_backward", Arithmetic::AttentionBackward}}};

constexpr std::array kCollectives = {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce};

using Units = std::vector<std::pair<std::string_view, double>>;
const Units kTimes = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
const Units kArithmeticRates = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}};
const Units kByteRates = {{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}};

std::optional<double> number(std::string_view text, std::string_view& rest) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  rest = text.substr(static_cast<size_t>(end - text.data()));
  return value;
}

// "torch.linear bf16[2,4] bf16[4,4]"
std::string with_types(const std::string& name, const Call& call) {
  std::string out = name;
  for (const Arg& a : call.args)
    visit_values(a, [&](Value v) {
      if (!v.type().is_tensor()) return;
      const TensorType& t = v.tensor();
      std::vector<std::string> sizes;
      for (const Dim& d : t.shape) sizes.push_back(d.is_constant() ? std::to_string(d.constant()) : "?");
      out += cat(" ", short_name(t.dtype), "[", join(sizes, ","), "]");
    });
  return out;
}

}  // namespace

std::string_view name_of(Collective c) {
  switch (c) {
    case Collective::AllGather: return "all_gather";
    case Collective::ReduceScatter: return "reduce_scatter";
    case Collective::AllReduce: break;
  }
  return "all_reduce";
}

// ---- parser ---------------------------------------------------------------------------------------------------------

class CostTableParser {
 public:
  explicit CostTableParser(CostTable onto) : table_(std::move(onto)) {}

  CostTable parse(std::string_view text) {
    std::istringstream lines{std::string(text)};
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      words_.clear();
      // A note may hold anything.
      std::istringstream in(line);
      std::string word;
      while (in >> word && word[0] != '#') words_.push_back(word);
      if (words_.empty()) continue;
      if (words_[0] == "note") take_note(line);
      else take_line();
    }
    return std::move(table_);
  }

 private:
  template <class... A>
  [[noreturn]] void fail(const A&... what) const {
    throw Error(ErrorKind::Value, cat("[cost table] line ", line_, ": ", what...));
  }

  void take_note(const std::string& line) {
    const size_t at = line.find("note") + 4;
    const size_t first = line.find_first_not_of(" \t", at);
    if (first == std::string::npos) fail("expected a text behind 'note'");
    table_.notes_.push_back(line.substr(first));
  }

  void take_line() {
    using Take = void (CostTableParser::*)();
    struct Form {
      std::string_view keyword;
      size_t least, most;  // operands
      Take take;
    };
    static constexpr std::array<Form, 9> kForms = {{{"device", 3, 3, &CostTableParser::take_device},
                                                    {"peak", 3, 3, &CostTableParser::take_peak},
                                                    {"memory", 1, 1, &CostTableParser::take_memory},
                                                    {"launch", 1, 1, &CostTableParser::take_launch},
                                                    {"call", 2, 64, &CostTableParser::take_call},
                                                    {"contention", 1, 1, &CostTableParser::take_contention},
                                                    {"spread", 1, 1, &CostTableParser::take_spread},
                                                    {"fabric", 4, 5, &CostTableParser::take_fabric},
                                                    {"node", 2, 3, &CostTableParser::take_node}}};
    for (const Form& f : kForms) {
      if (f.keyword != words_[0]) continue;
      const size_t given = words_.size() - 1;
      if (given < f.least || given > f.most)
        fail("'", f.keyword, "' takes ", f.least, f.most == f.least ? "" : " or more", " operands, got ", given);
      return (this->*f.take)();
    }
    fail("unknown keyword '", words_[0],
         "'; there are device, peak, memory, launch, call, contention, spread, fabric, node, note");
  }

  double quantity(std::string_view text, const Units& units, std::string_view what) const {
    std::string_view unit;
    const std::optional<double> value = number(text, unit);
    if (value && *value >= 0)
      for (const auto& [name, factor] : units)
        if (name == unit) return *value * factor;
    std::vector<std::string_view> names;
    for (const auto& [name, factor] : units) names.push_back(name);
    fail("expected ", what, " such as 2", names.back(), " (units: ", join(names), "), got '", text, "'");
  }
  double rate(std::string_view text, const Units& units) const {
    const double out = quantity(text, units, "a rate");
    if (out == 0) fail("expected a rate above 0, got '", text, "'");
    return out;
  }
  int64_t count(std::string_view text) const {
    int64_t out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || end != text.data() + text.size() || out < 1)
      fail("expected a whole number above 0, got '", text, "'");
    return out;
  }

  void take_device() {
    table_.device_ = words_[1];
    std::string_view rest;
    const std::optional<double> capability = number(words_[2], rest);
    if (!capability || !rest.empty()) fail("expected a compute capability such as 9.0, got '", words_[2], "'");
    table_.capability_ = static_cast<int>(std::lround(*capability * 10));
    table_.cudnn_ = count(words_[3]);
  }

  void take_peak() {
    const auto* kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == words_[1]; });
    if (kind == kKinds.end())
      fail("unknown kind '", words_[1], "'; there are product, convolution, attention, attention_backward");
    const std::optional<DType> dtype = dtype_from_short_name(words_[2]);
    if (!dtype) fail("unknown dtype '", words_[2], "'; write it as traces do: bf16, f32");
    table_.peaks_[{kind->second, *dtype}] = rate(words_[3], kArithmeticRates);
  }

  void take_memory() { table_.memory_ = rate(words_[1], kByteRates); }
  void take_launch() { table_.launch_ = quantity(words_[1], kTimes, "a time"); }

  void take_call() {
    const std::vector<std::string> key(words_.begin() + 1, words_.end() - 1);
    table_.calls_[join(key, " ")] = quantity(words_.back(), kTimes, "a time");
  }

  double share(std::string_view text) const {
    std::string_view rest;
    const std::optional<double> out = number(text, rest);
    if (!out || !rest.empty() || *out < 0 || *out >= 1) fail("expected a share from 0 to below 1, got '", text, "'");
    return *out;
  }
  void take_contention() { table_.contention_ = share(words_[1]); }
  void take_spread() { table_.spread_ = share(words_[1]); }

  void take_fabric() {
    CostTable::Link link;
    bool alpha = false;
    for (size_t i = 3; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      const size_t at = word.find('=');
      const std::string key = word.substr(0, at), value = at == std::string::npos ? "" : word.substr(at + 1);
      if (key == "alpha") {
        link.alpha = quantity(value, kTimes, "a time");
        alpha = true;
      } else if (key == "bandwidth") {
        link.bandwidth = rate(value, kByteRates);
      } else if (word == "steps=tree" || word == "steps=ring") {
        link.tree = value == "tree";
      } else {
        fail("expected alpha=TIME, bandwidth=RATE, steps=ring or steps=tree, got '", word, "'");
      }
    }
    if (!alpha || link.bandwidth == 0) fail("a fabric takes both alpha=TIME and bandwidth=RATE");
    bool known = false;
    for (Collective c : kCollectives) {
      if (words_[2] != "*" && words_[2] != name_of(c)) continue;
      table_.links_[{words_[1], c}] = link;
      known = true;
    }
    if (!known) fail("unknown collective '", words_[2], "'; there are all_gather, reduce_scatter, all_reduce, *");
  }

  void take_node() {
    table_.node_ = count(words_[1]);
    table_.inside_ = words_[2];
    table_.between_ = words_.size() > 3 ? words_[3] : "";
  }

  CostTable table_;
  int line_ = 0;
  std::vector<std::string> words_;
};

CostTable CostTable::parse(std::string_view text, const CostTable& onto) { return CostTableParser(onto).parse(text); }

// ---- costs ----------------------------------------------------------------------------------------------------------

double CostTable::peak(Arithmetic kind, DType dtype) const {
  auto it = peaks_.find({kind, dtype});
  if (it == peaks_.end()) it = peaks_.find({Arithmetic::Product, dtype});
  THUNDER_CHECK(it != peaks_.end(), Value, "simulate", "the cost table has no line 'peak product ", short_name(dtype),
                " ...', and the program multiplies in it");
  return it->second;
}

// The most exact line about it; -1 if there is none.
double CostTable::measured(const Call& call) const {
  if (calls_.empty()) return -1;
  for (const bool exact : {true, false})
    for (const std::string* name : {&call.op->print_name, &call.op->full_name, &meant_by(call).full_name})
      if (auto it = calls_.find(exact ? with_types(*name, call) : *name); it != calls_.end()) return it->second;
  return -1;
}

double CostTable::seconds(const Call& call) const {
  if (runs_nothing(call)) return 0;
  if (const double known = measured(call); known >= 0) return known;
  THUNDER_CHECK(memory_ > 0, Value, "simulate", "the cost table has no line 'memory ...'");
  const Work work = work_of(call);
  const double moving = static_cast<double>(work.bytes) / memory_;
  const double computing = work.flops > 0 ? work.flops / peak(work.kind, work.dtype) : 0;
  return launch_ + std::max(moving, computing);
}

const CostTable::Link& CostTable::link(const std::string& fabric, Collective c) const {
  auto it = links_.find({fabric, c});
  THUNDER_CHECK(it != links_.end(), Value, "simulate", "the cost table has no line 'fabric ", fabric, " ", name_of(c),
                " ...', and the program communicates there");
  return it->second;
}

double CostTable::seconds(Collective c, int64_t bytes, int64_t world, int64_t stride) const {
  if (world <= 1) return 0;
  THUNDER_CHECK(node_ > 0, Value, "simulate", "the cost table has no line 'node ...', and the program communicates");
  const int64_t inside = std::min(std::max<int64_t>(node_ / stride, 1), world), nodes = (world + inside - 1) / inside;
  THUNDER_CHECK(nodes == 1 || !between_.empty(), Value, "simulate", "the cost table's nodes have ", node_,
                " processes and no fabric between them, and the program is for ", world);
  // One process's part among n: the steps' time, and the bytes'.
  auto among = [&](const std::string& fabric, int64_t n, double share) {
    if (n == 1) return std::pair(0.0, 0.0);
    const Link& l = link(fabric, c);
    const auto count = static_cast<double>(n);
    const double steps = l.tree ? std::ceil(std::log2(count)) : count - 1;
    return std::pair(steps * l.alpha, share * (count - 1) / count / l.bandwidth);
  };
  const auto whole = static_cast<double>(bytes);
  const auto [near_steps, near] = among(inside_, inside, whole);
  const auto [far_steps, far] = among(between_, nodes, whole / static_cast<double>(inside));
  const double once = near_steps + far_steps + std::max(near, far);
  return c == Collective::AllReduce ? 2 * once : once;
}

}  // namespace thunder::distributed
