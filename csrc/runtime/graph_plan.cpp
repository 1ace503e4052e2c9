// How the results of a recording reach the caller and the backward.
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "runtime/autograd.h"
#include "runtime/graphs.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;

const void* storage_of(const at::Tensor& t) { return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr; }

bool same_place(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.dtype() == b.dtype();
}

// The input at the places whose memory the tensor lies in, or -1.
int64_t input_below(const Values& inputs, const at::Tensor& t) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const at::Tensor* in = defined_tensor(inputs[i]); in && storage_of(*in) == storage_of(t))
      return static_cast<int64_t>(i);
  return -1;
}

}  // namespace

std::string ForwardGraph::plan(const Programs& programs, const Values& inputs, const std::vector<char>& to_lend) {
  std::string why = plan_outputs(programs, to_lend);
  if (!why.empty()) return why;
  plan_saved(programs, inputs);
  const bool overwritten = recording->writes() && std::any_of(saved.begin(), saved.end(), [](const Saved& s) {
                             return s.from == Saved::From::Copied;
                           });
  return overwritten ? "what it saves for the backward shares memory with what it writes to" : "";
}

std::string ForwardGraph::plan_outputs(const Programs& programs, const std::vector<char>& to_lend) {
  using From = Output::From;
  const Values &results = recording->results(), &read = recording->inputs();
  for (size_t i = 0; i < programs.num_outputs; ++i) {
    Output out;
    if (recording->writes() && !programs.plain->gives(i, read.size())) {
      outputs.push_back(out);
      continue;
    }
    if (int64_t input = programs.forward->output_is_input(i); input >= 0) {
      out = {From::Input, static_cast<size_t>(input)};
    } else if (const at::Tensor* t = defined_tensor(results[i])) {
      if (t->device().type() != recording->device() || !t->has_storage()) return "it gives a tensor on another device";
      out.from = From::Copy;
      if (int64_t below = input_below(read, *t); below >= 0) {
        const auto input = static_cast<size_t>(below);
        const bool whole = same_place(*t, read[input].toTensor());
        if (!by_address(input) && !whole) return "an output lies in the memory of an argument";
        out = {by_address(input) ? From::Alias : From::Input, by_address(input) ? i : input};
      }
      for (size_t j = 0; j < i; ++j)
        if (const at::Tensor* other = defined_tensor(results[j]); other && other->is_same(*t)) out = {From::Output, j};
    }
    outputs.push_back(out);
  }
  // What two outputs share is copied for each: the caller may write to one of them.
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].from != From::Copy || i >= to_lend.size() || !to_lend[i]) continue;
    const auto shares = [&](const c10::IValue& other) {
      const at::Tensor* t = defined_tensor(other);
      return t && storage_of(*t) == storage_of(results[i].toTensor());
    };
    if (std::count_if(results.begin(), results.begin() + static_cast<ptrdiff_t>(outputs.size()), shares) == 1)
      outputs[i].from = From::Loan;
  }
  return {};
}

bool ForwardGraph::loans_out() const {
  return any_out(loans) || std::any_of(backwards.begin(), backwards.end(),
                                       [](const auto& b) { return b->overwrites && any_out(b->loans); });
}

void ForwardGraph::plan_saved(const Programs& programs, const Values& inputs) {
  using From = Saved::From;
  const Values &results = recording->results(), &read = recording->inputs();
  auto written = [&](const at::Tensor& t) {
    return std::any_of(programs.written_inputs.begin(), programs.written_inputs.end(), [&](size_t i) {
      const at::Tensor* w = defined_tensor(inputs[i]);
      return w && storage_of(*w) == storage_of(t);
    });
  };
  for (size_t i = 0; i < programs.num_saved_tensors; ++i) {
    Saved s;
    s.input = programs.saved_is_input[i];
    if (const at::Tensor* t = defined_tensor(results[programs.num_outputs + i])) {
      s.tensor = *t;
      const bool is_input = s.input >= 0;
      if (is_input) s.tensor = read[static_cast<size_t>(s.input)].toTensor();
      else s.input = input_below(read, *t);
      const bool caller = s.input >= 0 && by_address(static_cast<size_t>(s.input));
      if (caller && written(*t)) s.from = From::Copied;
      else if (caller && is_input) s.from = From::Caller;
      // What was copied into the recording keeps its value, whatever the epilogue writes.
      else if (s.input >= 0 && written(inputs[static_cast<size_t>(s.input)].toTensor())) s.input = -1;
      for (size_t j = 0; s.input < 0 && s.output < 0 && j < programs.num_outputs; ++j)
        if (const at::Tensor* out = defined_tensor(results[j]); out && storage_of(*out) == storage_of(*t))
          s.output = static_cast<int64_t>(j);
    }
    saved.push_back(std::move(s));
  }
}

void ForwardGraph::add_kept(Values& inputs) const {
  for (size_t i = 0; i < saved.size(); ++i)
    if (saved[i].from == Saved::From::Kept) inputs[i] = saved[i].tensor;
}

void ForwardGraph::move_saved_to(Values& inputs) {
  for (size_t i = 0; i < saved.size(); ++i) {
    Saved& s = saved[i];
    if (s.from != Saved::From::Kept || !s.tensor.defined() || s.tensor.numel() == 0 || s.output >= 0) continue;
    if (input_below(recording->inputs(), s.tensor) >= 0) continue;
    const at::Tensor& t = s.tensor;
    at::Tensor borrowed = at::from_blob(t.data_ptr(), t.sizes(), t.strides(), t.options());
    borrowed._set_conj(t.is_conj());
    borrowed._set_neg(t.is_neg());
    inputs[i] = std::exchange(s.tensor, std::move(borrowed));
    recording->forget_result(outputs.size() + i);
  }
  moved = true;
}

Values ForwardGraph::outputs_for(const Values& inputs, std::vector<at::Tensor>& to, std::vector<at::Tensor>& from) {
  using From = Output::From;
  const Values& results = recording->results();
  loans.clear();
  Values out;
  out.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& o = outputs[i];
    at::Tensor copy;
    if (o.from == From::Loan) {
      auto [lent, loan] = Loan::lend(results[i].toTensor(), recording);
      loans.push_back(std::move(loan));
      out.emplace_back(std::move(lent));
      continue;
    }
    if (o.from == From::Copy) {
      const at::Tensor& t = results[i].toTensor();
      copy = at::empty_strided(t.sizes(), t.strides(), t.options());
      from.push_back(memory_of(t));
      to.push_back(memory_of(copy));
    }
    out.push_back(o.from == From::Copy     ? c10::IValue(std::move(copy))
                  : o.from == From::Alias  ? c10::IValue(alias_without_history(results[i].toTensor()))
                  : o.from == From::Input  ? inputs[o.index]
                  : o.from == From::Output ? out[o.index]
                                           : results[i]);
  }
  // The numbers that are saved for the backward.
  for (size_t i = outputs.size() + saved.size(); i < results.size(); ++i) out.push_back(results[i]);
  return out;
}

}  // namespace thunder
