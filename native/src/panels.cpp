// The fused recurrence, forwards and backwards: over chunks of positions, or over a table's rows.

#include "panels.hpp"

#include "chunks.hpp"
#include "shard_product.hpp"
#include "token_table.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {
namespace {

// Panels of a chunk in scratch memory, or where they are kept.
template <class Real>
Panels<Real> panels_of(const Pass<Real> &pass, const Layout &layout, const ChunkRows &chunk,
                       Real *scratch) {
  const int64_t panel = chunk.rows() * LANES<Real>;
  Real *kept = static_cast<Real *>(pass.q.kept);
  if (!kept) return {scratch, panel, LANES<Real>};
  kept += chunk.first_row() * pass.plan.panels * LANES<Real>;
  return {kept + layout.panels_before * panel, panel, LANES<Real>};
}

// Positions that drive nothing have a transition, or a gradient, of zero.
template <class Real>
void keep_still(const PanelChunk<Real> &part, const Panels<Real> &panels) {
  part.each_idle_row([&](int64_t row, int64_t rows) {
    for (int64_t p = 0; p < part.layout.panels; ++p) clear(panels.of(p, row), rows * LANES<Real>);
  });
}

template <class Real>
void make_chunk(const PanelChunk<Real> &part, int64_t split, const Panels<Real> &panels) {
  const Pass<Real> &pass = part.pass;
  make_features(part.layout.feature_panels, pass.packed[split].forward, pass.path, part.chunk.rows(),
                part.increments(), panels);
  keep_still(part, panels);
  pass.flow(part.layout, part.chunk.rows(), panels, part.scratch.flow);
}

template <class Real>
void run_task(const Pass<Real> &pass, int64_t split, int64_t task, const Scratch<Real> &scratch) {
  const Layout &layout = pass.plan.layout[split];
  for (int64_t number = 0; number < chunks_of(pass); ++number) {
    const ChunkRows chunk = chunk_of(pass, task, number);
    const Panels<Real> panels = panels_of(pass, layout, chunk, scratch.transitions);
    const PanelChunk<Real> part = {pass, layout, scratch, chunk};
    if (!pass.q.made) {
      part.read_increments();
      make_chunk(part, split, panels);
    }
    part.carry_on();
    for (int64_t b = chunk.first_sequence; b < chunk.first_sequence + chunk.sequences; ++b) {
      for (int64_t c = 0; c < pass.q.columns; ++c) {
        part.sequence(b, c).run(chunk.first_step, chunk.steps, panels.panel,
                                [&](int64_t t) { return panels.of(0, chunk.row(b, t)); });
      }
    }
    part.write_states();
  }
}

// The transitions of each sequence of a task as one.
template <class Real>
void multiply_task(const Pass<Real> &pass, int64_t split, int64_t task,
                   const Scratch<Real> &scratch) {
  const Layout &layout = pass.plan.layout[split];
  for (int64_t number = 0; number < chunks_of(pass); ++number) {
    const ChunkRows chunk = chunk_of(pass, task, number);
    const Panels<Real> panels = panels_of(pass, layout, chunk, scratch.transitions);
    make_chunk<Real>({pass, layout, scratch, chunk}, split, panels);
    for (int64_t b = chunk.first_sequence; b < chunk.first_sequence + chunk.sequences; ++b) {
      const ShardProduct<Real> product = {pass.q, layout, scratch, b};
      if (chunk.first_step == 0) product.start();
      product.run(chunk.first_step, chunk.steps, panels.panel,
                  [&](int64_t t) { return panels.of(0, chunk.row(b, t)); });
      if (chunk.first_step + chunk.steps == chunk.length) product.write();
    }
  }
}

template <class Real>
void run_task_back(const Pass<Real> &pass, int64_t split, int64_t task, int64_t slot,
                   const Scratch<Real> &scratch) {
  const slicekit_panels &q = pass.q;
  const Layout &layout = pass.plan.layout[split];
  Real *total = pass.totals[split] + slot * layout.feature_panels * q.channels * LANES<Real>;
  for (int64_t number = chunks_of(pass) - 1; number >= 0; --number) {
    const ChunkRows chunk = chunk_of(pass, task, number);
    const Panels<Real> panels = panels_of(pass, layout, chunk, scratch.transitions);
    const Panels<Real> gradients = {scratch.gradients, panels.panel, panels.row};
    const PanelChunk<Real> part = {pass, layout, scratch, chunk};
    part.read_increments();
    part.read_states();
    if (!q.kept) make_chunk(part, split, panels);
    for (int64_t b = chunk.first_sequence; b < chunk.first_sequence + chunk.sequences; ++b) {
      auto from = [&](int64_t t) { return panels.of(0, chunk.row(b, t)); };
      auto to = [&](int64_t t) { return gradients.of(0, chunk.row(b, t)); };
      for (int64_t c = 0; c < q.columns; ++c) {
        const Sequence<Real> sequence = part.sequence(b, c);
        const int64_t first = chunk.first_step, count = chunk.steps, apart = panels.panel;
        if (!q.in_parameters && !q.in_increments) {
          sequence.template run_back<LEFT>(first, count, apart, apart, from, to);
        } else if (c == 0) {
          sequence.template run_back<WRITTEN>(first, count, apart, apart, from, to);
        } else {
          sequence.template run_back<ADDED>(first, count, apart, apart, from, to);
        }
      }
    }
    if (!q.in_parameters && !q.in_increments) continue;
    keep_still(part, gradients);
    pass.pull_flow(layout, chunk.rows(), panels, gradients, scratch.flow);
    // A few panels at a time, which both products read while they are in the cache.
    for (int64_t p = 0; p < layout.feature_panels; p += PANELS_AT_ONCE) {
      const int64_t some = least(PANELS_AT_ONCE, layout.feature_panels - p);
      const Panels<Real> own = {gradients.of(p, 0), gradients.panel, gradients.row};
      if (q.in_parameters) {
        add_parameter_gradients(some, pass.path, chunk.rows(), part.increments(), own,
                                total + p * pass.packed_panel(), true);
      }
      if (q.in_increments) {
        pull_increments(layout, pass.packed[split], pass.path, chunk.rows(), own, p, some,
                        p > 0 || (split > 0 && pass.plan.in_turn), part.in_increments(split));
      }
    }
    if (q.in_increments) part.write_in_increments(split);
  }
}

// The tasks of one accumulator: all of one task's in a split problem, an equal share otherwise.
template <class Real>
void run_slot_back(const Pass<Real> &pass, int64_t split, int64_t slot,
                   const Scratch<Real> &scratch) {
  const Plan &plan = pass.plan;
  const int64_t numbers = plan.layout[split].feature_panels * pass.q.channels * LANES<Real>;
  clear(pass.totals[split] + slot * numbers, numbers);
  for (int64_t task = slot * plan.tasks / plan.slots; task < (slot + 1) * plan.tasks / plan.slots;
       ++task) {
    run_task_back(pass, split, task, slot, scratch);
  }
}

template <class Real>
void add_partial_increments(const Pass<Real> &pass) {
  const slicekit_panels &q = pass.q;
  if (!q.in_increments) return;
  const int64_t width = pass.path.width();
  each_of(q.batch * q.length, pass.threads(), [&](int64_t row, int64_t) {
    Real *total = pass.partial[0] ? pass.partial[0] : static_cast<Real *>(q.in_increments);
    total += row * width;
    for (int64_t s = 1; s < pass.plan.splits; ++s) {
      for (int64_t i = 0; i < width; ++i) total[i] += pass.partial[s][row * width + i];
    }
    if (q.half) narrow(total, width, static_cast<Half *>(q.in_increments) + row * width);
  });
}

template <class Real>
void run_table_task(const Pass<Real> &pass, int64_t b, const Scratch<Real> &scratch) {
  const Panels<Real> table = rows_of_table(pass, pass.table);
  for (int64_t number = 0; number < chunks_of(pass); ++number) {
    const ChunkRows chunk = chunk_of(pass, b, number);
    const PanelChunk<Real> part = {pass, pass.plan.layout[0], scratch, chunk};
    part.carry_on();
    for (int64_t c = 0; c < pass.q.columns; ++c) {
      part.sequence(b, c).run(chunk.first_step, chunk.steps, table.panel,
                              [&](int64_t t) { return table.of(0, pass.token(b, t)); });
    }
    part.write_states();
  }
}

template <class Real>
void multiply_table_task(const Pass<Real> &pass, int64_t b, const Scratch<Real> &scratch) {
  const Panels<Real> table = rows_of_table(pass, pass.table);
  const ShardProduct<Real> product = {pass.q, pass.plan.layout[0], scratch, b};
  product.start();
  product.run(0, pass.q.length, table.panel, [&](int64_t t) { return table.of(0, pass.token(b, t)); });
  product.write();
}

template <class Real>
void run_table_slot_back(const Pass<Real> &pass, int64_t slot, const Scratch<Real> &scratch) {
  const Plan &plan = pass.plan;
  const int64_t numbers = pass.table_numbers();
  const int64_t first = slot * plan.tasks / plan.slots, stop = (slot + 1) * plan.tasks / plan.slots;
  const Panels<Real> table = rows_of_table(pass, pass.table);
  const Panels<Real> gradients = rows_of_table(pass, pass.in_table + slot * numbers);
  clear_gradients(pass, slot);
  if (by_lane_groups(pass.q, plan)) {
    const Panels<Real> transposed = rows_of_table(pass, pass.transposed);
    return pass.q.in_parameters || pass.q.in_increments
               ? run_token_strips_back<ADDED>(pass, transposed, gradients, first, stop)
               : run_token_strips_back<LEFT>(pass, transposed, gradients, first, stop);
  }
  for (int64_t b = first; b < stop; ++b) {
    for (int64_t number = chunks_of(pass) - 1; number >= 0; --number) {
      const ChunkRows chunk = chunk_of(pass, b, number);
      const PanelChunk<Real> part = {pass, plan.layout[0], scratch, chunk};
      part.read_states();
      if (number == 0 && b + 1 < stop) {
        PanelChunk<Real>{pass, plan.layout[0], scratch, chunk_of(pass, b + 1, chunks_of(pass) - 1)}
            .ask_for_states();
      }
      for (int64_t c = 0; c < pass.q.columns; ++c) {
        part.sequence(b, c).template run_back<ADDED>(
            chunk.first_step, chunk.steps, table.panel, gradients.panel,
            [&](int64_t t) { return table.of(0, pass.token(b, t)); },
            [&](int64_t t) { return gradients.of(0, pass.token(b, t)); });
      }
    }
  }
}

// `scratch` has one for each thread.
template <class Real>
void forward(Pass<Real> &pass, const Scratch<Real> *scratch) {
  const Plan &plan = pass.plan;
  if (pass.q.vocabulary) {
    make_table(pass, scratch);
    if (by_lane_groups(pass.q, plan)) {
      const Panels<Real> table = rows_of_table(pass, pass.table);
      return each_part(plan.slots, pass.threads(), [&](int64_t slot, int64_t) {
        run_token_strips(pass, table, slot * plan.tasks / plan.slots,
                         (slot + 1) * plan.tasks / plan.slots);
      });
    }
    return each_of(pass.q.batch, pass.threads(), [&](int64_t b, int64_t worker) {
      pass.q.product ? multiply_table_task(pass, b, scratch[worker])
                     : run_table_task(pass, b, scratch[worker]);
    });
  }
  pass.pack();
  each_part(plan.splits * plan.tasks, pass.threads(), [&](int64_t unit, int64_t worker) {
    const int64_t split = unit / plan.tasks, task = unit % plan.tasks;
    pass.q.product ? multiply_task(pass, split, task, scratch[worker])
                   : run_task(pass, split, task, scratch[worker]);
  });
}

template <class Real>
void backward(Pass<Real> &pass, const Scratch<Real> *scratch) {
  const Plan &plan = pass.plan;
  if (pass.q.vocabulary) {
    if (!pass.q.kept) make_table(pass, scratch);
    if (by_lane_groups(pass.q, plan)) transpose_table(pass);
    each_part(plan.slots, pass.threads(), [&](int64_t slot, int64_t worker) {
      run_table_slot_back(pass, slot, scratch[worker]);
    });
    if (pass.q.in_parameters || pass.q.in_increments) pull_table(pass, scratch);
    return;
  }
  pass.pack();
  const int64_t turns = plan.in_turn ? plan.splits : 1;
  each_part(plan.splits / turns * plan.slots, pass.threads(), [&](int64_t unit, int64_t worker) {
    for (int64_t turn = 0; turn < turns; ++turn) {
      run_slot_back(pass, unit / plan.slots + turn, unit % plan.slots, scratch[worker]);
    }
  });
  if (plan.splits > 1 && !plan.in_turn) add_partial_increments(pass);
  if (pass.q.in_parameters) pass.unpack();
}

template <class Real>
int64_t workspace_of(slicekit_panels q, bool back) {
  q.workspace = nullptr;
  Pass<Real> pass(q, back);
  for (int64_t i = 0; i < pass.threads(); ++i) pass.take_scratch();
  return pass.workspace.needed();
}

template <class Real>
int64_t run_pass(const slicekit_panels &q, bool back) {
  if (workspace_of<Real>(q, back) > q.workspace_bytes) return SLICEKIT_BAD_WORKSPACE;
  Pass<Real> pass(q, back);
  Scratch<Real> scratch[MAX_THREADS];
  for (int64_t i = 0; i < pass.threads(); ++i) scratch[i] = pass.take_scratch();
  back ? backward(pass, scratch) : forward(pass, scratch);
  return SLICEKIT_OK;
}

template <class Real>
int64_t numbers_kept(const slicekit_panels &q) {
  Plan plan;
  make_plan<Real>(q, plan);
  const int64_t rows = q.vocabulary ? 1 + q.vocabulary : q.batch * q.length;
  return can_keep(q) ? rows * plan.panels * LANES<Real> : 0;
}

}  // namespace

int64_t panels_run(const slicekit_panels &q, bool back) {
  return q.real == 4 ? run_pass<float>(q, back) : run_pass<double>(q, back);
}

int64_t panels_workspace(const slicekit_panels &q, bool back) {
  return q.real == 4 ? workspace_of<float>(q, back) : workspace_of<double>(q, back);
}

int64_t panels_columns(const slicekit_panels &q) { return product_columns(q); }

int64_t panels_kept(const slicekit_panels &q) {
  return q.real == 4 ? numbers_kept<float>(q) : numbers_kept<double>(q);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
