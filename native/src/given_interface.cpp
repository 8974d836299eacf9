// The C functions of slicekit_given.h: everything is checked here, before a kernel touches it.
#include "slicekit_given.h"

#include "dispatch.hpp"

SLICEKIT_DECLARE(namespace given {
  int64_t chunk(int64_t state_bytes);
  int64_t forward_work(const slicekit_given &task);
  int64_t backward_work(const slicekit_given &task);
  void forward(const slicekit_given &task);
  void backward(const slicekit_given &task);
})

namespace {

// With these no size of an array or of the work space comes near the end of int64_t.
constexpr int64_t LARGEST = int64_t(1) << 40, MOST_THREADS = 4096;

// Whether all sizes are positive and their product is at most LARGEST.
template <class... Sizes>
bool fits(Sizes... sizes) {
  const int64_t list[] = {sizes...};
  int64_t product = 1;
  for (const int64_t size : list) {
    if (size < 1 || size > LARGEST / product) return false;
    product *= size;
  }
  return true;
}

int64_t check_options(const slicekit_given &task) {
  const bool blocks = task.kind == SLICEKIT_BLOCKS;
  const bool low_rank = task.kind == SLICEKIT_LOW_RANK;
  if (task.kind != SLICEKIT_DIAGONAL && !blocks && !low_rank) return SLICEKIT_BAD_OPTION;
  if (task.real != 4 && task.real != 8) return SLICEKIT_BAD_OPTION;
  if (task.complex != 0 && task.complex != 1) return SLICEKIT_BAD_OPTION;
  if (task.complex && (blocks || low_rank)) return SLICEKIT_BAD_OPTION;
  if ((!blocks && task.block) || (!low_rank && task.rank)) return SLICEKIT_BAD_OPTION;
  if (task.input && (task.input_left || task.input_right)) return SLICEKIT_BAD_OPTION;
  const bool driven = task.input || task.input_left || task.input_right;
  if (task.rescale && (driven || task.readout)) return SLICEKIT_BAD_OPTION;
  return SLICEKIT_OK;
}

int64_t check_sizes(const slicekit_given &task) {
  if (task.batch < 0 || task.rescale < 0) return SLICEKIT_BAD_SIZE;
  if (task.threads < 1 || task.threads > MOST_THREADS) return SLICEKIT_BAD_SIZE;
  const int64_t batch = task.batch ? task.batch : 1;
  if (!fits(batch, task.length, task.dim, task.columns)) return SLICEKIT_BAD_SIZE;
  if (task.kind == SLICEKIT_BLOCKS) {
    if (task.block < 1 || task.dim % task.block) return SLICEKIT_BAD_SIZE;
    if (!fits(batch, task.length, task.dim, task.block)) return SLICEKIT_BAD_SIZE;
  }
  if (task.kind == SLICEKIT_LOW_RANK) {
    if (!fits(batch, task.length, task.dim, task.rank)) return SLICEKIT_BAD_SIZE;
    if (!fits(task.rank, task.columns)) return SLICEKIT_BAD_SIZE;
  }
  return SLICEKIT_OK;
}

int64_t check(const slicekit_given *task) {
  if (!task) return SLICEKIT_BAD_POINTER;
  const int64_t status = check_options(*task);
  return status ? status : check_sizes(*task);
}

template <class... Arrays>
bool there(Arrays... arrays) {
  return (... && (arrays != nullptr));
}

bool transitions_are_there(const slicekit_given &task) {
  if (task.kind == SLICEKIT_BLOCKS) return there(task.blocks);
  if (task.kind == SLICEKIT_DIAGONAL) return there(task.diagonal);
  return there(task.diagonal, task.left, task.right);
}

bool transition_gradients_are_there(const slicekit_given &task) {
  if (task.kind == SLICEKIT_BLOCKS) return there(task.in_blocks);
  if (task.kind == SLICEKIT_DIAGONAL) return there(task.in_diagonal);
  return there(task.in_diagonal, task.in_left, task.in_right);
}

// What both passes need.
int64_t check_arrays(const slicekit_given &task, int64_t needed) {
  if (!transitions_are_there(task) || !task.state) return SLICEKIT_BAD_POINTER;
  if (there(task.input_left) != there(task.input_right)) return SLICEKIT_BAD_POINTER;
  if (task.rescale && !task.factors) return SLICEKIT_BAD_POINTER;
  if (task.readout && !task.starts) return SLICEKIT_BAD_POINTER;
  if (!task.work) return SLICEKIT_BAD_POINTER;
  return task.work_bytes < needed ? SLICEKIT_BAD_WORKSPACE : SLICEKIT_OK;
}

int64_t check_gradients(const slicekit_given &task) {
  if (!there(task.in_outputs, task.in_last, task.in_state)) return SLICEKIT_BAD_POINTER;
  if (!transition_gradients_are_there(task)) return SLICEKIT_BAD_POINTER;
  if (!task.readout && !task.outputs) return SLICEKIT_BAD_POINTER;
  if (task.readout && !task.in_readout) return SLICEKIT_BAD_POINTER;
  if (task.input && !task.in_input) return SLICEKIT_BAD_POINTER;
  if (task.input_left && !there(task.in_input_left, task.in_input_right)) {
    return SLICEKIT_BAD_POINTER;
  }
  return SLICEKIT_OK;
}

// The arrays of other kinds left out; blocks of size one are a diagonal.
slicekit_given plain(slicekit_given task) {
  if (task.kind == SLICEKIT_BLOCKS && task.block == 1) {
    task.kind = SLICEKIT_DIAGONAL;
    task.block = 0;
    task.diagonal = task.blocks;
    task.in_diagonal = task.in_blocks;
  } else if (task.kind == SLICEKIT_BLOCKS) {
    task.diagonal = nullptr;
  }
  if (task.kind != SLICEKIT_BLOCKS) task.blocks = nullptr;
  if (task.kind != SLICEKIT_LOW_RANK) task.left = task.right = nullptr;
  return task;
}

}  // namespace

extern "C" {

int64_t slicekit_given_chunk(int64_t real, int64_t complex, int64_t dim, int64_t columns) {
  if ((real != 4 && real != 8) || (complex != 0 && complex != 1) || !fits(dim, columns)) return 0;
  return SLICEKIT_CALL(given::chunk, dim * columns * real * (1 + complex));
}

int64_t slicekit_given_forward_work(const slicekit_given *task) {
  if (check(task)) return -1;
  return SLICEKIT_CALL(given::forward_work, plain(*task));
}

int64_t slicekit_given_backward_work(const slicekit_given *task) {
  if (check(task)) return -1;
  return SLICEKIT_CALL(given::backward_work, plain(*task));
}

int64_t slicekit_given_forward(const slicekit_given *task) {
  const int64_t status = check(task);
  if (status || !task->batch) return status;
  const int64_t fault = check_arrays(*task, slicekit_given_forward_work(task));
  if (fault) return fault;
  if (!there(task->outputs, task->last)) return SLICEKIT_BAD_POINTER;
  SLICEKIT_CALL(given::forward, plain(*task));
  return SLICEKIT_OK;
}

int64_t slicekit_given_backward(const slicekit_given *task) {
  const int64_t status = check(task);
  if (status || !task->batch) return status;
  const int64_t fault = check_arrays(*task, slicekit_given_backward_work(task));
  if (fault) return fault;
  const int64_t missing = check_gradients(*task);
  if (missing) return missing;
  SLICEKIT_CALL(given::backward, plain(*task));
  return SLICEKIT_OK;
}

}  // extern "C"
