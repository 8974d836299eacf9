// Log-signatures as JAX calls them: slicekit_log_signatures.h behind XLA's interface.
//
// Attributes: `window` (one integer, as an array), `depth` (the same) and the tables of the basis.
//   forward   increments (paths, length, channels)[, edges] -> coefficients (paths, windows, size)
//   pullback  increments[, edges], in_coefficients -> in_increments
// Edges (paths, windows + 1) are there if `window` is 0. Axes in front of these are more paths.
#include "slicekit_log_signatures.h"

#include "xla.hpp"

namespace {

using xla::Buffer;
using xla::Frame;
using xla::integers;
using xla::require;

int64_t paths(const Buffer &buffer, int64_t own = 2) {
  require(buffer.rank > own, "slicekit: an array has too few axes");
  int64_t count = 1;
  for (int64_t i = 0; i < buffer.rank - own; ++i) count *= buffer.dims[i];
  return count;
}

// Edges, widened to 64 bits.
std::vector<int64_t> edges_of(const Buffer &buffer, int64_t batch, int64_t windows) {
  require(paths(buffer, 1) == batch && buffer.dims[buffer.rank - 1] == windows + 1,
          "slicekit: edges of another shape");
  require(buffer.dtype == xla::S32 || buffer.dtype == xla::S64, "slicekit: edges are no integers");
  const int64_t count = batch * (windows + 1);
  if (buffer.dtype == xla::S64) {
    const int64_t *wide = static_cast<const int64_t *>(buffer.data);
    return {wide, wide + count};
  }
  const int32_t *narrow = static_cast<const int32_t *>(buffer.data);
  return {narrow, narrow + count};
}

void run(const Frame &frame, bool backwards) {
  const auto depth = integers(frame, "depth"), window = integers(frame, "window");
  require(depth.count == 1 && window.count == 1, "slicekit: one number expected");
  const bool cut = window.data[0] == 0;
  require(frame.arguments.count == 1 + cut + backwards && frame.results.count == 1,
          "slicekit: another number of arrays");
  const Buffer &increments = *frame.arguments.buffers[0], &result = *frame.results.buffers[0];
  const Buffer &coefficients = backwards ? *frame.arguments.buffers[1 + cut] : result;
  const auto top = integers(frame, "top"), places = integers(frame, "places");
  const auto split_starts = integers(frame, "split_starts"), splits = integers(frame, "splits");
  const auto prefixes = integers(frame, "prefixes");
  const auto change_starts = integers(frame, "change_starts");
  const auto change_columns = integers(frame, "change_columns");
  const auto change_values = xla::doubles(frame, "change_values");
  require(top.count == 1, "slicekit: one number expected");
  require(split_starts.count == places.count + 1 && change_starts.count == places.count + 1 &&
              change_columns.count == change_values.count && prefixes.count % 3 == 0 &&
              splits.count % 2 == 0,
          "slicekit: tables of different sizes");

  slicekit_log_signatures task{};
  auto &sizes = task.sizes;
  sizes.real = xla::real_of(increments), sizes.batch = paths(increments);
  sizes.length = increments.dims[increments.rank - 2];
  sizes.channels = increments.dims[increments.rank - 1];
  sizes.depth = depth.data[0], sizes.window = window.data[0], sizes.top = top.data[0];
  sizes.windows = coefficients.dims[coefficients.rank - 2], sizes.size = places.count;
  sizes.prefixes = prefixes.count / 3, sizes.splits = splits.count / 2;
  sizes.changes = change_columns.count;
  sizes.threads = xla::threads(double(sizes.batch) * sizes.length * sizes.channels * sizes.size);
  require(paths(coefficients) == sizes.batch && coefficients.dtype == increments.dtype &&
              coefficients.dims[coefficients.rank - 1] == sizes.size,
          "slicekit: coefficients of another shape or precision");
  require(!backwards || (result.dtype == increments.dtype && paths(result) == sizes.batch &&
                          result.dims[result.rank - 2] == sizes.length &&
                          result.dims[result.rank - 1] == sizes.channels),
          "slicekit: a gradient of another shape or precision");
  task.tables = {places.data,        split_starts.data,   splits.data,       prefixes.data,
                 change_starts.data, change_columns.data, change_values.data};
  std::vector<int64_t> edges;
  if (cut) edges = edges_of(*frame.arguments.buffers[1], sizes.batch, sizes.windows);
  task.edges = cut ? edges.data() : nullptr;
  task.work_bytes = slicekit_log_signatures_workspace(&task);
  xla::Workspace workspace(task.work_bytes);
  task.increments = increments.data, task.work = workspace.data;
  if (!backwards) {
    task.coefficients = result.data;
    xla::check(slicekit_log_signatures_forward(&task));
  } else {
    task.in_coefficients = coefficients.data, task.in_increments = result.data;
    xla::check(slicekit_log_signatures_backward(&task));
  }
}

void slicekit_xla_log_signatures_forward_body(const Frame &frame) { run(frame, false); }
void slicekit_xla_log_signatures_pullback_body(const Frame &frame) { run(frame, true); }

}  // namespace

SLICEKIT_HANDLER(slicekit_xla_log_signatures_forward)
SLICEKIT_HANDLER(slicekit_xla_log_signatures_pullback)
