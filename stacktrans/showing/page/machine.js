"use strict";
/* Extracted machines, read from machine.json and run as stacktrans runs them: see automata/execution.py,
   decoding/decoder.py and tasks/layout.py for the definitions. */

const EMPTY = 0; // the stack symbol that is read where there is none
const CONSTANT = -1; // the component of terms that do not depend on the observation
const NO_OUTPUT = -1; // of a rule that writes nothing
const LONGEST_PRODUCT = 100000; // a limit on answers as long as a product of counts

const expanded = (ranges) =>
  ranges.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, at) => first + at));

/** The family and the symbol of each entry of a table, and the number of each by these. */
function tableOf(families) {
  const entries = families.flatMap(([, symbols], family) =>
    (symbols === null ? [null] : expanded(symbols)).map((symbol) => [family, symbol]),
  );
  return { entries, numbers: new Map(entries.map((entry, number) => [entry.join(), number])) };
}

/** A machine from the contents of machine.json. */
function machineOf(parts) {
  const { memories } = parts;
  const [inputs, outputs, states] = [parts.inputs, parts.outputs, parts.states].map(tableOf);
  const stackSymbols = parts.stack_symbols.map(tableOf);
  const reads = memories.reads.map((end, at) => [end, memories.depths[at] ?? 0]);
  const components = [inputs, ...reads.map(([end]) => stackSymbols[end >> 1]), states];
  const rules = parts.rules.map((rule) => ({
    ...rule,
    when: rule.when.map((ranges) => ranges && new Set(expanded(ranges))),
  }));
  return { ...parts, inputs, outputs, states, stackSymbols, reads, components, rules };
}

/** The transition at an observation, an entry of each component; null if no rule applies. */
function transitionAt(machine, observation) {
  const { memories, components } = machine;
  const symbols = components.map((table, at) => table.entries[observation[at]][1]);
  const at = machine.rules.findIndex(
    ({ when, equal }) =>
      when.every((entries, component) => entries === null || entries.has(observation[component])) &&
      equal.every(
        ([one, other, same]) =>
          (symbols[one] !== null && symbols[one] === symbols[other]) === same,
      ),
  );
  if (at < 0) return null;
  const rule = machine.rules[at];
  /** The number of an entry; -1 if its family has none with the symbol. */
  function valueOf([component, entry], table) {
    if (component === CONSTANT) return entry;
    const symbol = symbols[component];
    return symbol === null ? -1 : (table.numbers.get([entry, symbol].join()) ?? -1);
  }
  const active = ([signal]) => rule.signals[signal];
  const pushes = memories.pushes
    .map(([signal, end], which) => [signal, end, rule.pushed[which]])
    .filter(([signal, , term]) => rule.signals[signal] && term)
    .map(([, end, term]) => [end, valueOf(term, machine.stackSymbols[end >> 1])]);
  const nextState = valueOf(rule.next_state, machine.states);
  if (nextState < 0 || pushes.some(([, stackSymbol]) => stackSymbol < 0)) return null;
  return {
    rule: at + 1,
    signals: rule.signals,
    output: rule.output ? valueOf(rule.output, machine.outputs) : NO_OUTPUT,
    pops: memories.pops.filter(active).map(([, end]) => end),
    pushes,
    moves: memories.moves.filter(active).map(([, taken, put]) => [taken, put]),
    nextState,
  };
}

const isBottom = (end) => end % 2 === 1;
const peek = (rows, end, depth) => rows[end >> 1].at(isBottom(end) ? depth : -1 - depth);

/** Change the cells of memories, bottom first: each a stack symbol, and the step that pushed it. */
function apply({ pops, pushes, moves }, rows, step) {
  const take = (end) => (isBottom(end) ? rows[end >> 1].shift() : rows[end >> 1].pop());
  const put = (end, cell) => (isBottom(end) ? rows[end >> 1].unshift(cell) : rows[end >> 1].push(cell));
  for (const end of pops) take(end);
  for (const [end, stackSymbol] of pushes) put(end, { stackSymbol, step });
  for (const [taken, end] of moves) put(end, take(taken) ?? { stackSymbol: EMPTY, step });
}

/** The cells of all memories after some steps. */
function rowsAfter(machine, steps) {
  const rows = machine.memories.names.map(() => []);
  steps.forEach(({ transition }, step) => transition && apply(transition, rows, step));
  return rows;
}

/** A run of a machine, which records each step; at a step without a transition it is stuck. */
function runOf(machine) {
  const rows = rowsAfter(machine, []);
  const steps = [];
  let state = 0;

  /** The output for an input; undefined if no rule applies. */
  function read(input) {
    const cells = machine.reads.map(([end, depth]) => peek(rows, end, depth)?.stackSymbol ?? EMPTY);
    const observation = [input, ...cells, state];
    const transition = transitionAt(machine, observation);
    steps.push({ observation, transition });
    if (transition === null) return undefined;
    apply(transition, rows, steps.length - 1);
    state = transition.nextState;
    return transition.output;
  }
  return { steps, read };
}

/** The inputs before the first output, or all of them. */
function promptOf(layout, source) {
  const ids = layout.backwards ? [...source].reverse() : [...source];
  if (layout.first_target !== null) {
    return [...layout.before, ...ids.map((id) => id + layout.first_source), ...layout.after];
  }
  if (layout.blank !== null) {
    const [each, further] = layout.padding;
    const room = Math.max(ids.length, 1, each * ids.length + further);
    while (ids.length < room) ids.push(layout.blank);
  }
  return ids;
}

/** The most symbols of an answer. */
function limitOf(layout, [each, further], length) {
  if (layout.first_target === null) return Infinity;
  if (!layout.consecutive) return 2 * (Math.max(1, each * length + further) - 1) + 20;
  if (layout.end === null && !layout.last.length) return Math.max(0, length - 1);
  return Math.min(length ** 2, Math.max(4 * length, LONGEST_PRODUCT)) + 20;
}

/** The outputs of a run that are part of an answer, or end it; fewer if it is stuck. */
function outputsOf(machine, run, prompt, limit) {
  if (machine.buffers) return bufferedOutputs(machine, run, prompt);
  const { first_target: firstTarget, end, last } = machine.layout;
  const outputs = [];
  for (const [at, input] of prompt.entries()) {
    const output = run.read(input);
    if (output === undefined) return outputs;
    if (firstTarget === null || at === prompt.length - 1) outputs.push(output);
  }
  while (firstTarget !== null && outputs.length <= limit) {
    const output = outputs.at(-1);
    if ([NO_OUTPUT, end, ...last].includes(output)) break;
    const next = run.read(output + firstTarget);
    if (next === undefined) break;
    outputs.push(next);
  }
  return outputs;
}

/** The outputs that are written to a buffer, one for each input; none if the run is stuck before. */
function bufferedOutputs(machine, run, prompt) {
  const { steps_per_symbol: each, extra_steps: extra, output_skip: skip } = machine.buffers;
  const noInput = machine.inputs.entries.length - 1;
  const outputs = prompt.map(() => 0); // the first output, where nothing is written
  let [position, written] = [0, 0];
  for (let step = 0; step < each * prompt.length + extra; step += 1) {
    const full = written - skip >= prompt.length;
    const output = run.read(position < prompt.length ? prompt[position] : noInput);
    if (output === undefined) return full ? outputs : [];
    const [reads, writes] = run.steps.at(-1).transition.signals.slice(-2);
    position += reads;
    if (!writes || full) continue;
    if (written >= skip) outputs[written - skip] = output;
    written += 1;
  }
  return outputs;
}

/** The answer of a machine to a source, and the steps to it.
 *
 * Without an answer, the machine has failed: it is stuck at the last step, or a step has no output
 * for a symbol of the answer; `missing` is the index of the first of these, or -1. */
function answerOf(machine, source, bound) {
  const { layout } = machine;
  const prompt = promptOf(layout, source);
  const run = runOf(machine);
  const { steps } = run;
  const limit = limitOf(layout, bound, source.length);
  const outputs = outputsOf(machine, run, prompt, limit);
  const end = layout.end === null ? -1 : outputs.indexOf(layout.end);
  const ends = layout.end !== null || layout.last.length > 0;
  const kept = Math.min(outputs.length, limit, end < 0 ? Infinity : end);
  const ended =
    !ends ||
    end >= 0 ||
    (kept === outputs.length && layout.last.includes(outputs.at(-1)));
  const answer = outputs.slice(0, kept);
  const isStuck = () => steps.at(-1)?.transition === null;
  const feedsBack = layout.first_target !== null;
  const expected = feedsBack ? limit : prompt.length;
  const stuck = isStuck() && end < 0 && outputs.length < expected;
  const needsAll = feedsBack || ends;
  const failed = stuck || (needsAll && answer.includes(NO_OUTPUT));
  const missing = failed && needsAll ? missingOutput(machine, steps, prompt.length) : -1;
  if (feedsBack && !failed) {
    // Of a stream, the last symbol of an answer is read, too; a label is not.
    const read = layout.consecutive ? answer : answer.slice(0, layout.end === null ? -1 : undefined);
    for (const output of read.slice(steps.length - prompt.length)) {
      if (!isStuck()) run.read(output + layout.first_target);
    }
  }
  if (isStuck() && !stuck) steps.pop(); // after the answer, where no rule is needed
  if (layout.backwards) answer.reverse();
  return { answer, steps, ended, failed, missing, prompt: prompt.length };
}

/** The index of the first step that writes a symbol of the answer, but has no output; or -1. */
function missingOutput({ buffers }, steps, prompt) {
  let written = 0;
  return steps.findIndex(({ transition }, at) => {
    if (buffers) written += transition?.signals.at(-1) ?? 0;
    const writes = buffers
      ? transition?.signals.at(-1) && written > buffers.output_skip
      : at >= prompt - 1;
    return writes && transition?.output === NO_OUTPUT;
  });
}

/** The ids of the symbols in a text. */
function idsOf(machine, text, unknown) {
  const symbols = machine.words[0] ? (text.match(/[^ \t\n\r\f\v]+/g) ?? []) : [...text];
  const ids = symbols.map((symbol, at) => {
    const id = machine.source.indexOf(symbol);
    if (id < 0 && unknown === null) {
      throw new Error(`symbol ${at + 1} is ‘${symbol}’, which the machine does not know`);
    }
    return id < 0 ? unknown : id;
  });
  if (!promptOf(machine.layout, ids).length) {
    throw new Error("the string is empty; expected at least one symbol");
  }
  return ids;
}

/** A model of the page with the steps of its machine over a text. */
function traced(model, machine, text) {
  const run = answerOf(machine, idsOf(machine, text, model.unknown), model.bound);
  if (run.missing >= 0) run.steps.splice(run.missing + 1);
  const { first_target: firstTarget, consecutive } = machine.layout;
  // Outputs before the last symbol of the prompt belong to no answer.
  const hidden = firstTarget === null || consecutive ? 0 : run.prompt - 1;
  const steps = run.steps.map((step, at) => ({
    ...stepOf(model, machine, step, at < hidden),
    get reads() {
      return readIn(model, machine, rowsAfter(machine, run.steps.slice(0, at + 1)));
    },
    get contents() {
      return contentsIn(model, machine, rowsAfter(machine, run.steps.slice(0, at + 1)));
    },
  }));
  const most = mostCells(model, machine, run.steps);
  return { ...model, steps, most, verdict: verdictOf(model, machine, run) };
}

const hasStates = (machine) => machine.states.entries.length > 1;

/** A step as the data of a page have it, but for the memory. */
function stepOf({ names, signals, actions }, machine, { observation, transition }, hidden) {
  const output = transition && !hidden ? (names.outputs[transition.output] ?? null) : null;
  const state = transition ? transition.nextState : observation.at(-1);
  return {
    input: names.inputs[observation[0]],
    output,
    probability: output === null ? null : 1,
    scored: true,
    rule: transition?.rule ?? null,
    state: hasStates(machine) ? names.states[state] : null,
    signals: transition ? activeSignals(transition, actions) : signals.map(() => 0),
  };
}

/** The answer of a run, or why there is none. */
function verdictOf(model, machine, { answer, steps, ended, failed }) {
  if (failed) {
    const { observation, transition } = steps.at(-1);
    if (transition) {
      const reason = `rule ${transition.rule} has no output, but the answer needs one`;
      return `no answer: ${reason}, at step ${steps.length}`;
    }
    const observed = describeObservation(model, observation);
    return `no answer: no rule applies at step ${steps.length}: ${observed}`;
  }
  const symbols = answer.map((output) => (output === NO_OUTPUT ? "·" : model.names.outputs[output]));
  const cut = ended ? "" : "  (cut off: it did not end)";
  const written = symbols.join(machine.words[1] ? " " : "");
  return (written ? `answer: ${written}` : "empty answer") + cut;
}

/** An observation in words, the state first, without the components that no rule depends on. */
function describeObservation({ observations }, observation) {
  const words = observation.map((entry, component) => observations[component]?.[entry]);
  return [words.pop(), ...words].filter(Boolean).join(", ") || "always";
}

/** Signals of a transition; of a stack without an active one, the last, which is to do nothing, is. */
function activeSignals(transition, stacks) {
  const signals = [...transition.signals];
  let first = 0;
  for (const actions of stacks) {
    const next = first + actions.length;
    if (!signals.slice(first, next).includes(1)) signals[next - 1] = 1;
    first = next;
  }
  return signals;
}

/** What is read of each end, as the data of a page have it. */
function readIn(model, machine, rows) {
  return model.ends.map((_, which) => {
    const end = machine.memories.reads[which];
    const cell = peek(rows, end, 0);
    return cell ? [[model.names.stackSymbols[end >> 1][cell.stackSymbol], cell.step + 1, 1]] : [];
  });
}

/** The contents of the parts of a memory, as the data of a page have them. */
function contentsIn(model, machine, rows) {
  const count = rows.length / model.parts.length; // two rows of a list: up to its head, and right of it
  return model.parts.map((_, part) => {
    const [first, second] = rows.slice(part * count, (part + 1) * count);
    const symbols = model.names.stackSymbols[part * count];
    if (!model.actions.length) {
      return first.map(({ stackSymbol, step }, at) => [
        symbols[stackSymbol],
        step + 1,
        1,
        Number(at === 0 && isRead(part, true)),
        Number(at === first.length - 1 && isRead(part, false)),
      ]);
    }
    const left = second && !first.length ? [{ stackSymbol: EMPTY }] : first;
    const cells = [...left, ...[...(second ?? [])].reverse()].map(({ stackSymbol }, at) => {
      const head = second && at === left.length - 1 ? [1] : [];
      return [symbols[stackSymbol], 0, Number(stackSymbol !== EMPTY), 0, 0, ...head];
    });
    const shown = ([, , filled, , , head]) => filled || head;
    return cells.slice(cells.findIndex(shown), cells.findLastIndex(shown) + 1);
  });

  function isRead(row, bottom) {
    return machine.memories.reads.some((end) => end >> 1 === row && isBottom(end) === bottom);
  }
}

/** The most cells of a part of a memory at any step, at least 1. */
function mostCells(model, machine, steps) {
  const rows = rowsAfter(machine, []);
  const count = rows.length / model.parts.length;
  let most = 1;
  steps.forEach(({ transition }, step) => {
    if (transition) apply(transition, rows, step);
    model.parts.forEach((_, part) => {
      const own = rows.slice(part * count, (part + 1) * count);
      most = Math.max(most, own.reduce((sum, row) => sum + row.length, 0));
    });
  });
  return most;
}
