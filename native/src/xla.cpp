#include "xla.hpp"

#include <cstring>
#include <new>

#include "team.hpp"

namespace xla {
namespace {

constexpr double WORTHWHILE = 1 << 23;  // as slicekit.native.kernel has it

const char *said(int64_t status) {
  switch (status) {
    case SLICEKIT_BAD_SIZE: return "slicekit: a size that the kernel can't take";
    case SLICEKIT_BAD_POINTER: return "slicekit: a missing array";
    case SLICEKIT_BAD_OPTION: return "slicekit: an option that the kernel does not know";
    case SLICEKIT_BAD_WORKSPACE: return "slicekit: too small a work space";
    case SLICEKIT_BAD_INDEX: return "slicekit: index holds a number outside its table";
    default: return "slicekit: a fault without a name";
  }
}

const Array &array(const Frame &frame, const char *name, int32_t dtype) {
  const Attributes &all = frame.attributes;
  for (int64_t i = 0; i < all.count; ++i) {
    const Name &own = *all.names[i];
    if (own.count != std::strlen(name) || std::memcmp(own.letters, name, own.count)) continue;
    const Array &found = *static_cast<const Array *>(all.values[i]);
    require(all.types[i] == ATTRIBUTE_ARRAY && found.dtype == dtype,
            "slicekit: an attribute of another kind");
    return found;
  }
  throw Fault(std::string("slicekit: the attribute ") + name + " is missing");
}

bool answered(Frame *frame) {
  for (Extension *e = frame->extension; e; e = e->next) {
    if (e->type != EXTENSION_METADATA) continue;
    Metadata *metadata = reinterpret_cast<MetadataExtension *>(e)->metadata;
    metadata->version.major = MAJOR;
    metadata->version.minor = MINOR;
    metadata->traits = 0;
    return true;
  }
  return false;
}

Error *failure(const Frame *frame, const char *message) {
  ErrorArguments arguments{sizeof(ErrorArguments), nullptr, message, INVALID};
  return frame->api->create_error(&arguments);
}

}  // namespace

void check(int64_t status) {
  if (status) throw Fault(said(status));
}

int64_t threads(double work) {
  return work >= WORTHWHILE ? slicekit::team::usual_threads() : 1;
}

Workspace::Workspace(int64_t bytes) {
  require(bytes >= 0, "slicekit: a size that the kernel can't take");
  data = ::operator new(static_cast<size_t>(bytes) + 1, std::align_val_t(64));
}

Workspace::~Workspace() { ::operator delete(data, std::align_val_t(64)); }

Numbers<int64_t> integers(const Frame &frame, const char *name) {
  const Array &found = array(frame, name, S64);
  return {static_cast<const int64_t *>(found.data), static_cast<int64_t>(found.count)};
}

Numbers<double> doubles(const Frame &frame, const char *name) {
  const Array &found = array(frame, name, F64);
  return {static_cast<const double *>(found.data), static_cast<int64_t>(found.count)};
}

int64_t real_of(const Buffer &buffer) {
  require(buffer.dtype == F32 || buffer.dtype == F64, "slicekit: expected float32 or float64");
  return buffer.dtype == F32 ? 4 : 8;
}

Problems::Problems(const Buffer &whole, int64_t own) : count_(1) {
  require(whole.rank >= own, "slicekit: an array has too few axes");
  axes_.assign(whole.dims, whole.dims + (whole.rank - own));
  for (int64_t size : axes_) count_ *= size;
}

char *Problems::place(const Buffer &buffer, int64_t own, int64_t expected, int64_t problem) const {
  const int64_t front = static_cast<int64_t>(axes_.size());
  require(buffer.rank == front + own, "slicekit: an array has another number of axes");
  int64_t numbers = 1, offset = 0, stride = 1;
  for (int64_t i = front; i < buffer.rank; ++i) numbers *= buffer.dims[i];
  require(numbers == expected, "slicekit: an array has another size");
  for (int64_t i = front - 1; i >= 0; --i) {
    const int64_t size = buffer.dims[i];
    require(size == 1 || size == axes_[i], "slicekit: the axes in front of two arrays differ");
    if (size > 1) offset += problem % axes_[i] * stride;
    problem /= axes_[i];
    stride *= size;
  }
  const int64_t bytes = buffer.dtype == F32 || buffer.dtype == S32 ? 4 : 8;
  return static_cast<char *>(buffer.data) + offset * numbers * bytes;
}

Error *handle(Frame *frame, void (*body)(const Frame &)) {
  if (answered(frame) || frame->stage != STAGE_EXECUTE) return nullptr;
  try {
    body(*frame);
    return nullptr;
  } catch (const std::exception &fault) {
    return failure(frame, fault.what());
  }
}

}  // namespace xla
