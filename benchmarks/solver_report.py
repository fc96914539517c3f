"""Tables, bars and the picture of what benchmarks/solver.py measured."""

import math
from statistics import median

RBF = ["adult-easy", "adult-hard", "ijcnn1", "mnist", "gaussians"]
GROWTH = (2000, 4000, 8000, 16000, 32000, 64000)
# issue 3: at least so many times faster on each, in the geometric mean, and at most so much memory of theirs
BARS = {"intelex32": (2.0, 5.0), "sklearn": (6.0, 15.0), "libsvm": (6.0, 15.0)}
MEMORY_BAR = 1.2
GRID_BARS = {"intelex32": 8.0, "sklearn": 10.0}
ROUNDS_BAR = 1.5
NAMES = {
    "adult-easy": "Adult, C=1, γ=.05 (10,000 × 123)",
    "adult-hard": "Adult, C=100, γ=.5 (10,000 × 123)",
    "ijcnn1": "IJCNN1, C=10, γ=1 (20,000 × 22)",
    "mnist": "MNIST even/odd, C=10, γ=.02 (6,000 × 784)",
    "gaussians": "overlapping Gaussians, C=1 (50,000 × 22)",
    "digits": "digits even/odd, C=10 (1,797 × 64)",
    "wdbc": "WDBC, C=1 (569 × 30)",
    "news": "20 Newsgroups, one class, linear (18,821 × 41,439)",
    "news-one-vs-rest": "20 Newsgroups, 20 classes against the rest, linear",
    "mnist-precomputed": "precomputed, MNIST 3,000",
    "ijcnn1-precomputed": "precomputed, IJCNN1 4,000",
    "adult-grid": "5 folds × 5 values of C up to 100, Adult 6,000 (γ=.5)",
    "ijcnn1-grid": "5 × 5, C up to 10, IJCNN1 6,000",
    "mnist-grid": "5 × 5, C up to 10, MNIST 4,000",
}
SOLVERS = {
    "intelex32": "intelex float32", "intelex64": "intelex float64", "sklearn": "scikit-learn", "libsvm": "LIBSVM",
    "thunder": "ThunderSVM", "liblinear": "LIBLINEAR",
}  # fmt: skip


def ratios(row, base, key="wall"):
    """Of each pair of runs; larger than 1: ours is faster."""
    theirs = row.get(key, [])
    return [a / b for a, b in zip(theirs, base[key], strict=False)]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def lines(name, threads, rows):
    """One workload as text."""
    text = [f"\n{name}, {threads} thread{'s' * (threads > 1)}"]
    base = rows.get("ours", {})
    for solver, row in rows.items():
        if "failed" in row:
            text.append(f"  {solver:10s} {row['failed']}")
            continue
        wall, cold = row["wall"], row["cold_wall"]
        line = (
            f"  {solver:10s} wall {median(wall):8.3f} ({min(wall):.3f}–{max(wall):.3f}) cold {median(cold):.3f}"
            f" cpu {median(row['cpu']):8.3f} {row['peak'] / 2**20:6.0f} MB"
        )
        if solver != "ours" and "wall" in base:
            line += f"  {median(ratios(row, base)):6.2f}x wall {median(ratios(row, base, 'cpu')):6.2f}x cpu"
        if "objective" in row:
            line += f"  objective {row['objective']:.6f} gap {row['gap']:.2e} support {row['support']}"
        if "accuracy" in row:
            line += "  accuracy " + " ".join(f"{a:.4f}" for a in row["accuracy"])
        for rounds, whole, solving, largest in row.get("rounds", [])[-1:]:
            line += (
                f"  {rounds:.0f} rounds, {whole / largest:.2f}x the largest training, solver {solving / largest:.2f}x"
            )
        text.append(line)
    return "\n".join(text)


def _results(figures, names, threads):
    for name in names:
        found = figures["results"].get(f"{name}/{threads}")
        if found and "wall" in found["solvers"].get("ours", {}):
            yield name, found["solvers"]


def _threads(figures):
    return sorted({int(key.split("/")[1]) for key in figures["results"]})


def bars(figures):
    """Each bar beside what was reached."""
    text = ["\nbars (ratios of wall seconds, medians of pairs)"]

    def say(reached, what):
        text.append(f"  {'met   ' if reached else 'MISSED'} {what}")

    for threads in _threads(figures):
        t = f"{threads} thread{'s' * (threads > 1)}"
        for solver, (least, mean) in BARS.items():
            warm, cold = {}, {}
            for name, rows in _results(figures, RBF, threads):
                row, base = rows.get(solver, {}), rows["ours"]
                if "wall" not in row:
                    continue
                warm[name] = median(ratios(row, base))
                cold[name] = median(ratios(row, base, "cold_wall"))
                say(
                    warm[name] >= least,
                    f"{t}, {name}: {warm[name]:.1f}x {solver}, cold {cold[name]:.1f}x (bar {least})",
                )
                memory = base["peak"] / row["peak"]
                say(memory <= MEMORY_BAR, f"{t}, {name}: {memory:.2f} of the memory of {solver} (bar {MEMORY_BAR})")
                if "objective" in row:
                    worse = (base["objective"] - row["objective"]) / abs(row["objective"])
                    say(worse <= 1e-5, f"{t}, {name}: objective worse than that of {solver} by {worse:.1e} (bar 1e-5)")
            if warm:
                value = geometric_mean(list(warm.values()))
                cold_value = geometric_mean(list(cold.values()))
                say(value >= mean, f"{t}: geometric mean {value:.1f}x {solver}, cold {cold_value:.1f}x (bar {mean})")
        for name, rows in _results(figures, [n for n in NAMES if n.endswith("-grid")], threads):
            for solver, least in GRID_BARS.items():
                if "wall" in rows.get(solver, {}):
                    value = median(ratios(rows[solver], rows["ours"]))
                    same = rows[solver]["accuracy"] == rows["ours"]["accuracy"]
                    difference = max(
                        abs(a - b) for a, b in zip(rows[solver]["accuracy"], rows["ours"]["accuracy"], strict=True)
                    )
                    say(value >= least, f"{t}, {name}: {value:.1f}x {solver} (bar {least})")
                    say(difference < 1e-3, f"{t}, {name}: accuracies {'equal' if same else f'within {difference:.1e}'}")
        for name, rows in _results(figures, [f"{n}-rounds" for n in RBF], threads):
            _, whole, solving, largest = map(median, zip(*rows["ours"]["rounds"], strict=True))
            say(
                solving / largest <= ROUNDS_BAR,
                f"{t}, {name}: trainings of a PSVM run {solving / largest:.2f}x the largest one (bar {ROUNDS_BAR});"
                f" the whole fit, scores and thresholds included, {whole / largest:.2f}x",
            )
    return "\n".join(text)


def _table(figures, names, threads, solvers, key):
    """Ours in seconds, the others as ratios."""
    head = f"| problem | ours, s (cold) | {' | '.join(SOLVERS[s] for s in solvers)} |"
    text = [head, "|" + "---|" * (2 + len(solvers))]
    for name, rows in _results(figures, names, threads):
        base = rows["ours"]
        cells = []
        for solver in solvers:
            row = rows.get(solver, {})
            if key in row:
                pair = [median(ratios(row, base, k)) for k in (key, key.replace("wall", "cpu"))]
                cells.append(f"{pair[0]:.1f} · {pair[1]:.1f}")
            else:
                cells.append(row.get("failed", "not run"))
        text.append(
            f"| {NAMES.get(name, name)} | {median(base['wall']):.3g} ({median(base['cold_wall']):.3g})"
            f" | {' | '.join(cells)} |"
        )
    return "\n".join(text)


def _memory_table(figures, threads):
    solvers = ["ours", "intelex32", "intelex64", "sklearn", "libsvm"]
    text = ["| problem | ours | " + " | ".join(SOLVERS[s] for s in solvers[1:]) + " |", "|" + "---|" * 6]
    for name, rows in _results(figures, RBF, threads):
        cells = [f"{rows[s]['peak'] / 2**20:.0f}" if "peak" in rows.get(s, {}) else "not run" for s in solvers]
        text.append(f"| {NAMES[name]} | {' | '.join(cells)} |")
    return "\n".join(text)


def _growth_table(figures, threads):
    text = [
        "| n | ours, s | intelex float32, s | scikit-learn, s | LIBSVM, s | ours, MB | intelex float32, MB |",
        "|" + "---|" * 7,
    ]
    for name, rows in _results(figures, [f"gaussians-{n}" for n in GROWTH], threads):
        cells = [
            f"{median(rows[s]['wall']):.3g}" if "wall" in rows.get(s, {}) else "—"
            for s in ("ours", "intelex32", "sklearn", "libsvm")
        ] + [f"{rows[s]['peak'] / 2**20:.0f}" if "peak" in rows.get(s, {}) else "—" for s in ("ours", "intelex32")]
        text.append(f"| {int(name.split('-')[1]):,} | {' | '.join(cells)} |")
    return "\n".join(text)


def markdown(figures):
    """The tables of docs/solver.md."""
    parts = []
    peers = ["intelex32", "intelex64", "sklearn", "libsvm", "thunder"]
    others = ["digits", "wdbc", "news", "mnist-precomputed", "ijcnn1-precomputed"]
    grids = [name for name in NAMES if name.endswith("-grid")]
    for threads in _threads(figures):
        t = f"{threads} thread{'s' * (threads > 1)}"
        tables = {
            f"Warm, {t}: ratios of wall · processor seconds, larger than 1 where ours is faster.":
                _table(figures, RBF, threads, peers, "wall"),
            f"Cold, {t}:": _table(figures, RBF, threads, peers, "cold_wall"),
            f"Peak memory of the process in MB, {t}:": _memory_table(figures, threads),
            f"5-fold grids, {t}:": _table(figures, grids, threads, ["intelex32", "sklearn"], "wall"),
            f"Other problems, {t}:": _table(figures, others, threads, peers, "wall"),
            f"Against LIBLINEAR (which regularises the intercept), {t}:":
                _table(figures, ["news-one-vs-rest"], threads, ["liblinear"], "wall"),
            f"Growth of the Gaussians, {t}:": _growth_table(figures, threads),
        }  # fmt: skip
        for title, table in tables.items():
            if table.count("\n") > 1:  # more than its head
                parts += [title, table]
    loads = [found["load"] for found in figures["results"].values()]
    dates = sorted(found["date"] for found in figures["results"].values())
    parts.append(f"Measured {dates[0]} to {dates[-1]} (UTC), load of the machine {min(loads):.1f} to {max(loads):.1f}.")
    parts.append("```\n" + bars(figures).strip() + "\n```")
    return "\n\n".join(parts)


def draw(figures, path):
    """Time and memory against n."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "solver"
    from matplotlib import pyplot

    threads = _threads(figures)[0]
    figure, (time_axes, memory_axes) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for solver, label in {"ours": "prefsvm", **SOLVERS}.items():
        points = [
            (int(name.split("-")[1]), median(rows[solver]["wall"]), rows[solver]["peak"] / 2**20)
            for name, rows in _results(figures, [f"gaussians-{n}" for n in GROWTH], threads)
            if "wall" in rows.get(solver, {})
        ]
        if points:
            n, seconds, memory = zip(*points, strict=True)
            time_axes.plot(n, seconds, marker="o", label=label)
            memory_axes.plot(n, memory, marker="o", label=label)
    for axes, title in ((time_axes, "seconds, warm"), (memory_axes, "peak memory of the process, MB")):
        axes.set(xscale="log", yscale="log", xlabel="rows", title=title)
        axes.set_xticks(GROWTH, [f"{n // 1000}k" for n in GROWTH])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    if time_axes.lines:
        time_axes.legend()
    figure.suptitle(f"Overlapping Gaussians, 22 features, C = 1, {threads} thread{'s' * (threads > 1)}")
    figure.savefig(path, metadata={"Date": None} if str(path).endswith("svg") else None)
