//! Golden tests of the models and of derived metrics: what they predict and compute from given
//! results, on given hosts.
//!
//! A file in `tests/models/` has paragraphs, which know nothing of each other. Their lines:
//! - `# …`: what the paragraph shows.
//! - `host cpu.family = 6`: a fact of the host, in TOML; `host = zen4`: those of `smoke::zen4`.
//! - `os.syscall{call=getppid} = 100`: a result known from there on; `= 100 90 110`: that of each
//!   process. Facts of its record follow: `= 100, TCP_INFO min_rtt = 90`.
//! - `? os.ratio{of=fork}`: a case, or with `? os.syscall` all cases of the metric. The prediction
//!   of each is below it, and what a derived metric computes: `SNAPSHOTS=overwrite` writes them.
//! - `cases os.syscall`: the cases at each effort, also those of a mounted folder and those to
//!   another host, `b`.

use std::fmt::Write as _;
use std::path::Path;

use fathom_analysis::statistics::Ratio;
use fathom_metric::Entry;
use fathom_record::{Class, FactValue};
use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use crate::prelude::*;
use crate::{REGISTRY, smoke};

/// A prediction is indented below its case.
const INDENT: &str = "    ";

#[test]
fn models_predict_as_before() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models");
    for group in ["cpu", "file", "memory", "network", "os"] {
        let file = Path::new(folder).join(format!("{group}.txt"));
        let text = std::fs::read_to_string(&file).expect("a golden file");
        let predicted: Vec<String> = text.split("\n\n").map(paragraph).collect();
        let golden = Data::read_from(&file, Some(DataFormat::Text)).raw();
        let predicted = Data::text(predicted.join("\n")).raw();
        Assert::new().action_env("SNAPSHOTS").eq(predicted, golden);
    }
}

/// The paragraph with its predictions.
fn paragraph(text: &str) -> String {
    let (mut host, mut records, mut all) = (Host::default(), Vec::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with(INDENT)) {
        writeln!(all, "{line}").unwrap();
        if line == "host = zen4" {
            host = smoke::zen4();
        } else if let Some(fact) = line.strip_prefix("host ") {
            host = with_fact(&host, fact);
        } else if let Some(asked) = line.strip_prefix("? ") {
            all += &answers(asked, &host, &records);
        } else if let Some(metric) = line.strip_prefix("cases ") {
            all += &cases(metric, &host);
        } else if !line.starts_with('#') && !line.is_empty() {
            records.push(result(line));
        }
    }
    all
}

fn with_fact(host: &Host, fact: &str) -> Host {
    let mut facts = toml::Table::try_from(host).unwrap();
    merge(&mut facts, fact.parse().unwrap_or_else(|error| panic!("{fact}: {error}")));
    facts.try_into().unwrap_or_else(|error| panic!("{fact}: {error}"))
}

fn merge(into: &mut toml::Table, from: toml::Table) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(toml::Value::Table(into)), toml::Value::Table(from)) => merge(into, from),
            (_, value) => _ = into.insert(name, value),
        }
    }
}

/// The record of a result.
fn result(line: &str) -> Record {
    let (case, numbers) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
    let mut numbers = numbers.split(", ");
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
    let (metric, params) = metric_and_params(case);
    let medians: Vec<f64> = numbers.next().unwrap().split(' ').map(number).collect();
    let mut record = smoke::record(metric, &params, medians[0], 0.0);
    record.summary.as_mut().unwrap().process_medians = medians;
    record.facts.extend(numbers.map(|fact| {
        let (name, value) = fact.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
        Fact::quantity(name, number(value), Unit::Nanoseconds)
    }));
    record
}

fn metric_and_params(case: &str) -> (&str, Params) {
    let Some((metric, params)) = case.split_once('{') else { return (case, Params::none()) };
    let params = params.trim_end_matches('}').split(',').fold(Params::none(), |params, one| {
        let (name, value) = one.split_once('=').unwrap_or_else(|| panic!("{case}"));
        match value.parse::<i64>() {
            Ok(number) => params.and(name, number),
            Err(_) => params.and(name, value),
        }
    });
    (metric, params)
}

/// The predictions of a case, or of all cases of a metric.
fn answers(asked: &str, host: &Host, records: &[Record]) -> String {
    let (metric, params) = metric_and_params(asked);
    let entry = REGISTRY.find(metric).unwrap_or_else(|| panic!("no metric {metric}"));
    let cases = match entry {
        Entry::Probe(probe) if params.is_empty() => {
            let cases = probe.cases(host, &Sizes::default());
            cases.into_iter().map(|case| case.params).collect()
        }
        Entry::Derived(derived) if params.is_empty() => derived.cases(),
        _ => vec![params],
    };
    let mut all = String::new();
    for params in &cases {
        let name = if cases.len() > 1 { format!("{params} ") } else { String::new() };
        let known = Inputs::new(records).on(host);
        let model = entry.predict(params, host, &known);
        if let (Ok(model), Entry::Probe(_) | Entry::Derived(_)) = (&model, entry) {
            let is_declared = |name: &str| {
                let used = name.split('{').next().unwrap();
                used == metric || entry.about().needs.contains(&used)
            };
            assert!(model.results().all(is_declared), "{asked}: an input is no need: {model:?}");
        }
        if let Some(model) = model.as_ref().ok().filter(|it| it.class() == Class::Value) {
            let parts = [model.hardware, model.software];
            assert!(parts.into_iter().flatten().all(|it| it >= 0.0), "{asked}: {model:?}");
            let again = |records: &[Record]| {
                entry.predict(params, host, &Inputs::new(records).on(host)).ok()?.value
            };
            // If the input moves by 1 %, the value moves by 0.8 % or more.
            let is_nearly = |input: &&str| {
                let mut moved = records.to_vec();
                let of_name = moved.iter_mut().rev().find(|record| record.name() == **input);
                if let Some(summary) = of_name.and_then(|it| it.summary.as_mut()) {
                    summary.median *= 1.01;
                }
                again(&moved).zip(again(records)).is_some_and(|(to, from)| to / from >= 1.007_999)
            };
            // The frequency of the core only turns cycles into times.
            let nearly = model.results().filter(|it| *it != "cpu.frequency").find(is_nearly);
            assert_eq!(nearly, None, "{asked}: a self-consistency at most (METHOD 26a)");
        }
        writeln!(all, "{INDENT}{name}{}", described(&model)).unwrap();
        if let Entry::Derived(derived) = entry {
            let computed = match derived.reduce(params, &known) {
                Ok(estimate) => computed(&estimate),
                Err(missing) => format!("no result: {missing}"),
            };
            writeln!(all, "{INDENT}{name}{computed}").unwrap();
        }
    }
    all
}

fn cases(metric: &str, host: &Host) -> String {
    let Some(Entry::Probe(probe)) = REGISTRY.find(metric) else { panic!("no probe {metric}") };
    let mut all = String::new();
    for effort in [Effort::Quick, Effort::Standard, Effort::Thorough] {
        let here = probe.cases(host, &Sizes { mount: true, ..effort.into() });
        let there = here.iter().filter_map(|case| probe.remote(case, "b")).collect();
        let both = [(here, ""), (there, " to b")];
        for (cases, place) in both.into_iter().filter(|(cases, _)| !cases.is_empty()) {
            let params: String = cases.iter().map(|case| format!(" {}", case.params)).collect();
            writeln!(all, "{INDENT}{}{place}, {}:{params}", effort.word(), cases.len()).unwrap();
        }
    }
    all
}

fn described(model: &Model) -> String {
    let model = match model {
        Ok(model) => model,
        Err(none) => return format!("none: {none:?}"),
    };
    let parts = [model.hardware, model.software].map(|part| part.map_or("–".to_owned(), digits));
    let mut text = match (model.value, model.low, model.high) {
        (Some(value), ..) => format!("{} = {}", digits(value), parts.join(" + ")),
        _ => String::from("bound"),
    };
    text += &model.low.map_or(String::new(), |low| format!(", ≥ {}", digits(low)));
    text += &model.high.map_or(String::new(), |high| format!(", ≤ {}", digits(high)));
    text += if model.self_consistency { ", self-consistent" } else { "" };
    let inputs = model.inputs.iter().map(|one| format!("{} = {}", one.name, digits(one.value)));
    format!("{text}: {} | {}", model.formula, inputs.collect::<Vec<_>>().join(", "))
}

fn computed(estimate: &DerivedEstimate) -> String {
    let DerivedEstimate { per_process, difference, quotient, notes, facts, doubts, edges: _ } =
        estimate;
    let values: Vec<String> = per_process.iter().copied().map(digits).collect();
    let mut text = values.join(", ") + if *difference { ", a difference" } else { "" };
    if let Some(Ratio { ratio, low, high, .. }) = quotient {
        text += &format!(", ratio {} ({} to {})", digits(*ratio), digits(*low), digits(*high));
    }
    let doubts = doubts.iter().map(|doubt| &doubt.text);
    notes.iter().chain(doubts).for_each(|note| text += &format!("; {note}"));
    for Fact { name, value } in facts {
        let value = match value {
            FactValue::Quantity { value, .. } => digits(*value),
            FactValue::Text { text } | FactValue::Line { line: text } => text.clone(),
        };
        text += &format!("; {name} {value}");
    }
    text
}

/// Six significant digits: the last ones of a double depend on the order of its operations.
fn digits(number: f64) -> String {
    format!("{number:.5e}").parse::<f64>().unwrap().to_string()
}
