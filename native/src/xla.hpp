// What a handler of XLA's foreign function interface is given, read by hand.
//
// JAX calls a C function with one struct, the call frame: the buffers that go in, those to be
// filled and the attributes of the call. The structs below are those of version 0.1 of that
// interface, the oldest in use, which later versions only add to: newer headers would ask for more
// than an older JAX has. Only what is read here has a name. They follow xla/ffi/api/c_api.h of
// OpenXLA:
//
//   Copyright 2023 The OpenXLA Authors. Licensed under the Apache License, Version 2.0; you may
//   obtain a copy at http://www.apache.org/licenses/LICENSE-2.0. Distributed on an "AS IS" basis,
//   without warranties or conditions of any kind, either express or implied. Selected and renamed
//   for slicekit.
//
// Under jax.vmap every buffer has more axes in front, of size one where it is the same for all: a
// call is then many problems, see `Problems`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "slicekit.h"

namespace xla {

constexpr int MAJOR = 0, MINOR = 1;
enum : int32_t { S32 = 4, S64 = 5, F32 = 11, F64 = 12 };
enum : int32_t { EXTENSION_METADATA = 1, ATTRIBUTE_ARRAY = 1, STAGE_EXECUTE = 3, INVALID = 3 };

struct Extension {
  size_t size;
  int32_t type;
  Extension *next;
};
struct Version {
  size_t size;
  Extension *extension;
  int major, minor;
};
struct Metadata {
  size_t size;
  Version version;
  uint32_t traits;
};
struct MetadataExtension {
  Extension base;
  Metadata *metadata;
};
struct Error;  // XLA's own
struct ErrorArguments {
  size_t size;
  Extension *extension;
  const char *message;
  int32_t code;
};
struct Api {
  size_t size;
  Extension *extension;
  Version version;
  const void *internal;
  Error *(*create_error)(ErrorArguments *);
};
struct Buffer {
  size_t size;
  Extension *extension;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *dims;
};
struct Buffers {
  size_t size;
  Extension *extension;
  int64_t count;
  int32_t *types;
  Buffer **buffers;
};
struct Name {
  const char *letters;
  size_t count;
};
struct Array {
  int32_t dtype;
  size_t count;
  void *data;
};
struct Attributes {
  size_t size;
  Extension *extension;
  int64_t count;
  int32_t *types;
  Name **names;
  void **values;
};
struct Frame {
  size_t size;
  Extension *extension;
  const Api *api;
  void *context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

// What is wrong with a call; `handle` turns it into an error of XLA's.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const char *otherwise) {
  if (!condition) throw Fault(otherwise);
}

// Raise what a kernel said of its arguments.
void check(int64_t status);

// Threads for that many multiplications: one for few, otherwise as many as usual (team.hpp).
int64_t threads(double work);

// Memory for a kernel to work in.
struct Workspace {
  explicit Workspace(int64_t bytes);
  ~Workspace();
  Workspace(const Workspace &) = delete;
  Workspace &operator=(const Workspace &) = delete;
  void *data;
};

// An attribute that is an array of int64 or of double.
template <class T>
struct Numbers {
  const T *data;
  int64_t count;
};
Numbers<int64_t> integers(const Frame &frame, const char *name);
Numbers<double> doubles(const Frame &frame, const char *name);

// Bytes of a number of a floating buffer.
int64_t real_of(const Buffer &buffer);

// The problems of one call: one, or under vmap as many as the axes in front come to.
class Problems {
 public:
  // From a buffer that has all axes in front, and how many axes are its own.
  Problems(const Buffer &whole, int64_t own);

  int64_t count() const { return count_; }

  // Where the numbers of a problem begin: `own` axes of `expected` numbers in all.
  template <class T = void>
  T *at(const Buffer &buffer, int64_t own, int64_t expected, int64_t problem) const {
    return static_cast<T *>(static_cast<void *>(place(buffer, own, expected, problem)));
  }

 private:
  char *place(const Buffer &buffer, int64_t own, int64_t expected, int64_t problem) const;

  std::vector<int64_t> axes_;
  int64_t count_;
};

// Answers XLA's question for the version, or runs `body` on the frame.
Error *handle(Frame *frame, void (*body)(const Frame &));

}  // namespace xla

#define SLICEKIT_HANDLER(name) \
  extern "C" SLICEKIT_API xla::Error *name(xla::Frame *frame) { \
    return xla::handle(frame, name##_body); \
  }
