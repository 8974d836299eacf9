// A kernel against the same mathematics in plain loops, for programs without Python.
//
// A *case* has leaves (what it is given), a plain function of them in double precision, and a kernel
// that gives outputs and the gradients of <weights, outputs> in every leaf. Outputs are compared with
// the plain function's; gradients with its differences along a random direction.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace cases {

template <class Real>
using Array = std::vector<Real>;

template <class Real>
using Arrays = std::vector<Array<Real>>;

template <class Real>
struct Found {
  int64_t status;
  Array<Real> outputs;
  Arrays<Real> gradients;  // of every leaf; an empty one is not compared
};

template <class Real>
using Kernel = std::function<Found<Real>(const Arrays<Real> &leaves, const Array<Real> &weights)>;

using Plain = std::function<Array<double>(const Arrays<double> &leaves)>;

inline Array<double> random_numbers(std::mt19937 &source, size_t count, double scale) {
  std::normal_distribution<double> normal(0, scale);
  Array<double> numbers(count);
  for (double &x : numbers) x = normal(source);
  return numbers;
}

template <class Real>
Array<Real> cast(const Array<double> &numbers) {
  return Array<Real>(numbers.begin(), numbers.end());
}

inline double largest(const Array<double> &numbers) {
  double found = 1e-30;
  for (double x : numbers) found = std::fmax(found, std::fabs(x));
  return found;
}

inline double dot(const Array<double> &a, const Array<double> &b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

// Counts the cases that failed, and prints each of them.
class Trial {
 public:
  int failures() const { return failures_; }
  int count() const { return count_; }

  // The bound is that of the precision, or a larger one.
  template <class Real>
  void run(const std::string &name, const Arrays<double> &leaves, const Plain &plain,
           const Kernel<Real> &kernel, double larger = 0) {
    const double own = sizeof(Real) == 4 ? 2e-4 : 1e-6;  // the latter is that of the differences
    const double bound = std::fmax(own, larger);
    const Array<double> expected = plain(leaves);
    const Array<double> weights = random_numbers(source_, expected.size(), 1);
    Arrays<Real> given;
    for (const Array<double> &leaf : leaves) given.push_back(cast<Real>(leaf));
    const Found<Real> found = kernel(given, cast<Real>(weights));
    const std::string whole = name + (sizeof(Real) == 4 ? ", float" : ", double");
    expect(found.status == 0, whole + ": status " + std::to_string(found.status));
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      error = worse(error, std::fabs(found.outputs[i] - expected[i]));
    }
    expect(error <= bound * largest(expected), whole + ": outputs");
    for (size_t n = 0; n < found.gradients.size(); ++n) {
      if (found.gradients[n].empty()) continue;
      const Array<double> direction = random_numbers(source_, leaves[n].size(), 1);
      const double step = 1e-5 * largest(leaves[n]);
      auto loss = [&](double by) {
        Arrays<double> moved = leaves;
        for (size_t i = 0; i < direction.size(); ++i) moved[n][i] += by * direction[i];
        return dot(plain(moved), weights);
      };
      const double slope = (loss(step) - loss(-step)) / (2 * step);
      const Array<double> gradient(found.gradients[n].begin(), found.gradients[n].end());
      const double size = largest(gradient) * std::sqrt(double(gradient.size())) + 1;
      expect(std::fabs(dot(gradient, direction) - slope) <= 10 * bound * size,
             whole + ": gradient of leaf " + std::to_string(n));
    }
  }

  void expect(bool right, const std::string &what) {
    ++count_;
    if (right) return;
    ++failures_;
    std::printf("wrong: %s\n", what.c_str());
  }

 private:
  // NaN is worse than anything.
  static double worse(double a, double b) { return b > a || b != b ? b : a; }

  std::mt19937 source_{0};
  int failures_ = 0, count_ = 0;
};

}  // namespace cases
