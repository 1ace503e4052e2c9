// What acquisitions and calls have shown of a function.
//
// A Learned owns what the function looks at in its objects (attributes, identities), from which keys are made, and which
// numbers of tensors and of the environment change from call to call, which are inputs of later programs.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/environment.h"
#include "frontend/reads.h"
#include "frontend/structure.h"

namespace thunder {

class Learned {
 public:
  const frontend::ClassUses& uses() const { return uses_; }
  /// Containers among the arguments that the function reaches by another way, too.
  const frontend::Identities& themselves() const { return themselves_; }
  /// Whether the arguments were taken by identity where the program knows them so.
  bool knows(const frontend::Reads& reads) const;
  /// Whether there was anything new in it.
  bool learn(const frontend::Reads& reads);

  /// A program is for that value of an int which it reads from a tensor.
  void add_int(const std::string& place, int64_t now) { ints_.emplace(place, now); }
  /// Whether another program was for another value there.
  bool varies(const std::string& place, int64_t now) const;

  /// Calls that draw random numbers and are made as a whole.
  frontend::DrawingCalls& drawing_calls() { return drawing_calls_; }
  /// Whether there was a new one in it.
  bool learn_drawing_calls(frontend::Reads& reads) { return drawing_calls_.add(reads.draws().found()); }

  const frontend::CounterPlaces& counters() const { return counters_; }
  /// Finds places that hold numbers before and after: self.step += 1.
  void find_counters(const std::vector<frontend::Effect>& effects);
  /// Others may change a number between the calls: `environment` does not hold because of one, if it names one.
  void find_counter(const frontend::EnvironmentGuard& environment);

  /// Forgets the numbers.
  void clear_numbers();

 private:
  frontend::ClassUses uses_;
  frontend::Identities themselves_;
  std::unordered_map<std::string, int64_t> ints_;  // by place
  frontend::CounterPlaces counters_;
  frontend::DrawingCalls drawing_calls_;
  std::map<std::pair<PyObject*, std::string>, std::vector<Ref>> changed_;  // numbers, by their places
};

}  // namespace thunder
