#include "passes/written_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dim_algebra.h"
#include "ops/common.h"
#include "ops/torch/attention.h"
#include "passes/laid_out.h"
#include "passes/mask_programs.h"
#include "passes/written_scores.h"

namespace thunder {
namespace {

constexpr int64_t kFewestKeys = 128;  // the products of fewer are small beside the kernels' own overhead

bool is_narrow(DType t) { return t == DType::f16 || t == DType::bf16; }

// How the masks become one.  Programs differ in what a row is that sees nothing, and so do kernels.
enum class MaskForm : uint8_t {
  None,        // There is no mask.
  Known,       // Each row is known to see something.
  Infinite,    // Such a row is not a number in the program.  Kernels give zeros.
  Narrow,      // Such a row has about the weights that it has without a mask: the hiding numbers are not large.
  Conditions,  // Such a row is the mean of all values, and no gradient flows to its scores.
  Refused,     // Such a row is the mean of all values, and a gradient flows to its scores.  No kernel does that.
};

/// Makes the calls of one attention.
struct AttentionMaker {
  Builder& b;
  const LaidOut& layouts;
  const WrittenAttention& w;

  Arg made(MaskForm form) const {
    Expr q = now(w.query), k = now(w.key);
    const DType t = q.dtype();
    for (Value v : w.factors) q = b("torch.mul", q, now(v));
    for (Value v : w.divisors) q = b("torch.div", q, now(v));
    q = with_batch(b.expr(ops::convert(b, q, t)));
    if (w.key_is_transposed) k = b("torch.transpose", k, -2, -1);
    const bool conditions = std::all_of(w.masks.begin(), w.masks.end(), [](const WrittenMask& m) { return m.chooses; });
    Arg mask;
    if (form != MaskForm::None) mask = conditions ? seen().arg() : ops::convert(b, numbers(), t);
    if (form == MaskForm::Conditions) {
      // A row that sees nothing sees all, by a query of zeros.
      const Expr sees = b("torch.any", b.expr(mask), -1, true);
      q = b("torch.where", sees, q, 0.0);
      mask = b("torch.logical_or", b.expr(mask), b("torch.logical_not", sees)).arg();
    }
    return b(ops::torch::kAttention, q, with_batch(k), with_batch(now(w.value)), mask, 0.0, false, kw("scale", w.scale))
        .arg();
  }

  Arg like_result(const Arg& attention) const {
    if (same(w.result.shape(), attention.value().shape())) return attention;
    return b("torch.reshape", attention, w.result.shape()).arg();
  }

 private:
  Expr now(Value v) const {
    const Value other = layouts.now(v);
    return b.expr(other ? other : v);
  }

  Expr with_batch(const Expr& x) const {
    Dims shape = w.batch;
    shape.insert(shape.end(), x.shape().end() - 2, x.shape().end());
    if (same(x.shape(), shape)) return x;
    const bool one_head = x.rank() == 4 && x.shape()[0].same(shape[0]) && x.shape()[1].same(1);
    return b(one_head ? "torch.expand" : "torch.reshape", x, shape);
  }

  // With as many dimensions as attention has: [batch, heads, rows, keys].
  Expr tensor_of(const WrittenMask& m) const {
    Dims shape = w.batch;
    if (m.shape.size() == 4) shape = {m.shape[0], m.shape[1]};
    else if (m.shape.size() == 2 || m.shape[0].same(1)) shape = {Dim(1), Dim(1)};
    shape.insert(shape.end(), m.shape.end() - 2, m.shape.end());
    const Expr x = now(m.tensor);
    return same(x.shape(), shape) ? x : b("torch.reshape", x, shape);
  }

  Expr seen_by(const WrittenMask& m) const {
    const Expr x = tensor_of(m);
    return m.keeps_where_true ? x : b("torch.logical_not", x);
  }

  // Where all conditions keep a score.
  Expr seen() const {
    Expr out;
    for (const WrittenMask& m : w.masks) out = out.is_none() ? seen_by(m) : b("torch.logical_and", out, seen_by(m));
    return out;
  }

  // What all masks together add to a score.
  Expr numbers() const {
    Expr out;
    for (const WrittenMask& m : w.masks) {
      if (m.chooses) {
        out = b("torch.where", seen_by(m), out.is_none() ? Arg(0.0) : out.arg(), -HUGE_VAL);
      } else {
        const Expr x = tensor_of(m), scaled = m.factor == 1 ? x : x * m.factor;
        out = out.is_none() ? scaled : out + scaled;
      }
    }
    return out;
  }
};

class Writer {
 public:
  Writer(const Trace& trace, const WrittenScores& scores, const ExecutorList& executors, const MaskReader& reader)
      : trace_(trace), scores_(scores), executors_(executors), programs_(trace, reader) {}

  // The calls that can be one of attention, and what they read, by the value that they make.
  bool find() {
    for (const Call* product : scores_.products()) {
      std::optional<WrittenAttention> w = scores_.match(*product);
      if (!w || !is_worth(*w)) continue;
      for (Value v : {w->result, w->query, w->key, w->value}) needed_.set(v, 1);
      for (const auto* values : {&w->factors, &w->divisors})
        for (Value v : *values) needed_.set(v, 1);
      for (const WrittenMask& m : w->masks) needed_.set(m.tensor, 1);
      found_.emplace(w->result.id(), std::move(*w));
    }
    return !found_.empty();
  }

  Trace run() {
    Trace opened = trace_.derived();
    opened.calls = open_where_needed(trace_.calls, needed_);
    LaidOut layouts(opened);
    for (const Call* call : opened.calls) {
      for (const Call* c : changed(*call, layouts)) layouts.rewriter.builder.append(c);
      programs_.note(*call);
    }
    return any_ ? layouts.finish() : trace_;
  }

 private:
  static bool is_worth(const WrittenAttention& w) {
    const Dims& key = w.key.shape();
    return usual_value(w.key_is_transposed ? key.back() : key[key.size() - 2], 0) >= kFewestKeys;
  }

  std::vector<const Call*> changed(const Call& call, LaidOut& layouts) {
    const auto it = call.output.is_value() ? found_.find(call.output.value().id()) : found_.end();
    if (it != found_.end())
      if (std::vector<const Call*> made = as_attention(call, it->second, layouts); !made.empty()) return made;
    if (!layouts.reads_any(call)) return {&call};
    return layouts.rewriter.collect(call, [&] { layouts.again(call, is_indifferent(call)); });
  }

  // Nothing where no executor takes it, or where its masks cannot be one.
  std::vector<const Call*> as_attention(const Call& call, const WrittenAttention& w, LaidOut& layouts) {
    for (const MaskForm form : forms_of(w)) {
      Arg attention, result;
      std::vector<const Call*> made = layouts.rewriter.collect(call, [&] {
        const AttentionMaker maker{layouts.rewriter.builder, layouts, w};
        attention = maker.made(form);
        result = maker.like_result(attention);
      });
      if (!is_taken(made, attention.value()) || !same_kind(result.value(), w.result)) continue;
      if (!rows_see(form, made, attention)) continue;
      any_ = true;
      layouts.lay_out(w.result, result.value());
      return made;
    }
    return {};
  }

  // Those that may do, the best one first.
  std::vector<MaskForm> forms_of(const WrittenAttention& w) const {
    if (w.masks.empty()) return {MaskForm::None};  // finite scores that no mask lowers are not floored
    std::vector<MaskForm> out;
    const auto known = [&](const WrittenMask& m) { return programs_.is_known(m.tensor) && fits(m, w.query.dtype()); };
    if (std::all_of(w.masks.begin(), w.masks.end(), known)) out.push_back(MaskForm::Known);
    if (const MaskForm other = form_of_any(w); other != MaskForm::Refused) out.push_back(other);
    return out;
  }

  // Kernels read masks in the operands' type.
  bool fits(const WrittenMask& m, DType t) const {
    return m.chooses || (m.tensor.dtype() == t && m.factor == 1) || !is_narrow(t) ||
           scores_.hides(m.tensor, Hides::Somehow);
  }

  MaskForm form_of_any(const WrittenAttention& w) const {
    const auto all = [&](auto&& holds) { return std::all_of(w.masks.begin(), w.masks.end(), holds); };
    if (w.is_floored) return MaskForm::Refused;
    if (all([&](const WrittenMask& m) {
          return m.chooses ? std::isinf(m.hidden) : scores_.hides(m.tensor, Hides::Infinitely);
        }))
      return MaskForm::Infinite;
    const WrittenMask& first = w.masks.front();
    if (is_narrow(w.query.dtype()) && w.masks.size() == 1 && !first.chooses && first.factor == 1 &&
        scores_.hides(first.tensor, Hides::Narrowly))
      return MaskForm::Narrow;
    const bool alike = all([&](const WrittenMask& m) { return m.chooses && m.hidden == first.hidden; });
    return alike ? MaskForm::Conditions : MaskForm::Refused;
  }

  // Asks what a mask of that form is.
  bool rows_see(MaskForm form, const std::vector<const Call*>& made, const Arg& attention) {
    if (form != MaskForm::Known) return true;
    Value mask;
    for (const Call* c : made) {
      programs_.note(*c);
      if (c->output.is_value() && c->output.value() == attention.value()) mask = c->arguments().value("attn_mask");
    }
    if (!programs_.is_known(mask) || !programs_.kind(mask).rows_see) return false;
    programs_.depend_on(mask, programs_.kind(mask));
    return true;
  }

  bool is_taken(const std::vector<const Call*>& made, Value attention) const {
    return std::any_of(made.begin(), made.end(), [&](const Call* c) {
      return c->output.is_value() && c->output.value() == attention && find_specialist(executors_, *c);
    });
  }

  static bool same_kind(Value a, Value b) {
    return a.dtype() == b.dtype() && same(a.shape(), b.shape()) && a.requires_grad() == b.requires_grad();
  }

  const Trace& trace_;
  const WrittenScores& scores_;
  const ExecutorList& executors_;
  MaskPrograms programs_;
  ValueSet needed_;
  std::unordered_map<ValueId, WrittenAttention> found_;
  bool any_ = false;
};

}  // namespace

Trace written_attention(const Trace& trace, const ExecutorList& executors, const MaskReader& reader) {
  const WrittenScores scores(trace);
  if (!scores.has_softmax()) return trace;
  Writer writer(trace, scores, executors, reader);
  return writer.find() ? writer.run() : trace;
}

}  // namespace thunder
