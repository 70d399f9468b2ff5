//! The machine: a table for reading, and every fact with its source.

use fathom_record::quantity::{NOTHING, counted, quantity};
use fathom_record::{Document, Host, Origin, Record, Unit};
use serde_json::Value;

use super::block::{Block, PaperTable};
use super::heading;
use crate::column::Column;
use crate::distinct::distinct;
use crate::hardware::hardware;
use crate::shown::mark_of_any;

const UNKNOWN: &str = "not reported by this machine";

pub(super) fn chapter(document: &Document) -> Vec<Block> {
    let (host, run) = (&document.host, &document.run);
    let parts = hardware(host);
    let part = |label: &str| {
        parts.iter().find(|(name, _)| *name == label).map(|(_, words)| words.replace("; ", ";\n"))
    };
    let cpu = &host.cpu;
    let numbered = |name: &str, number: Option<u32>| Some(format!("{name} {}", number?));
    let processor = [
        Some(cpu.model.clone()),
        numbered("family", cpu.family),
        numbered("model", cpu.model_number),
        numbered("stepping", cpu.stepping),
        cpu.microcode.as_ref().map(|it| format!("microcode {it}")),
        Some(format!("{} logical CPUs", cpu.logical)),
        cpu.cores.map(|cores| format!("{cores} cores")),
    ];
    let memory = host.memory.total_bytes.map(|bytes| quantity(bytes as f64, Unit::Bytes));
    let system = [
        host.distribution.clone(),
        Some(format!("kernel {}", host.kernel)),
        host.libc.clone(),
        host.virtualization.clone().map(|kind| match kind.as_str() {
            "none" => "no virtualisation".to_owned(),
            kind => format!("guest of {kind}"),
        }),
        host.emulation.clone().map(|kind| format!("CPU emulated by {kind}")),
        host.container.clone().map(|kind| format!("in {kind}")),
        host.clocksource.clone().map(|kind| format!("clock source {kind}")),
    ];
    let rate = host.memory.modules.iter().find_map(|module| module.transfers_per_s);
    let bus = rate.map(|rate| format!("{} MT/s a module, by the firmware", rate / 1e6));
    let joined = |words: &[Option<String>]| {
        Some(words.iter().flatten().cloned().collect::<Vec<String>>().join(", "))
    };
    let tuned = match run.tuned.is_empty() {
        true => "as the program was started, without --tune".to_owned(),
        false => run.tuned.join(", "),
    };
    let compiler = document.tool.compiler.as_deref().unwrap_or("a compiler not recorded");
    let program = format!("{} {}", document.tool.name, document.tool.version);
    let rows = [
        ("processor", joined(&processor)),
        ("microarchitecture", microarchitecture(&document.records)),
        ("cycle", cycle(&document.records)),
        ("caches", part("caches")),
        ("memory bus", bus),
        ("I/O buses", part("links")),
        ("memory", memory),
        ("memory modules", part("modules")),
        ("NUMA nodes", part("nodes")),
        ("disks", part("disks")),
        ("network cards", part("network")),
        ("system", joined(&system)),
        ("mitigations", mitigations(host)),
        ("program", Some(format!("{program}, compiled by {compiler}"))),
        ("priority and tuning", Some(tuned)),
    ];
    let names = rows.iter().map(|(name, _)| (*name).to_owned());
    let words = rows.iter().map(|(_, words)| words.clone().unwrap_or_else(|| UNKNOWN.to_owned()));
    let columns = vec![Column::words("part", names), Column::words("what it is", words)];
    let caption = format!("the machine {}", host.shown_name());
    vec![heading(2, "Machine"), Block::Table(PaperTable { caption, columns })]
}

/// The rows of constants that predictions used.
fn microarchitecture(records: &[Record]) -> Option<String> {
    let inputs = records.iter().filter_map(|it| it.prediction.as_ref()).flat_map(|it| &it.inputs);
    let rows = inputs.filter_map(|it| match &it.origin {
        Origin::Table { row } => Some(row.clone()),
        _ => None,
    });
    let rows = distinct(rows);
    (!rows.is_empty()).then(|| format!("{} (constants of data/uarch.toml)", rows.join(", ")))
}

fn cycle(records: &[Record]) -> Option<String> {
    let frequency = records.iter().find(|it| it.metric.as_str() == "cpu.frequency")?;
    let hz = frequency.shown_summary()?.median;
    let [cycle, rate] = [(1e9 / hz, Unit::Nanoseconds), (hz, Unit::Hertz)]
        .map(|(value, unit)| quantity(value, unit));
    Some(format!("{}{cycle}, at {rate} as measured", mark_of_any(&[frequency])))
}

fn mitigations(host: &Host) -> Option<String> {
    let all = &host.mitigations;
    let acts = all.iter().filter(|(_, words)| *words != "Not affected");
    let acts: Vec<String> = acts.map(|(name, words)| format!("{name}: {words}")).collect();
    let rest = all.len() - acts.len();
    let rest = (rest > 0).then(|| format!("not affected by {}", counted(rest, "other")));
    (!all.is_empty()).then(|| acts.into_iter().chain(rest).collect::<Vec<_>>().join(";\n"))
}

/// Each fact with its value, and where it comes from.
pub(super) fn facts(host: &Host) -> Vec<Block> {
    if host.origins.is_empty() {
        return Vec::new();
    }
    let json = serde_json::to_value(host).unwrap_or_default();
    let value = |fact: &String| {
        let found = fact.split('.').try_fold(&json, |value, name| value.get(name));
        let words = found.map_or(String::new(), |it| words(fact, it));
        if words.is_empty() { NOTHING.to_owned() } else { words }
    };
    let (facts, sources) = (host.origins.keys(), host.origins.values().cloned());
    let columns = vec![
        Column::words("fact", facts.clone().cloned()),
        Column::words("value", facts.map(value)),
        Column::words("source", sources),
    ];
    let caption = "the facts of the machine".to_owned();
    let table = PaperTable { caption, columns };
    vec![heading(2, "Appendix: facts of the machine"), Block::Table(table)]
}

/// A fact, with the unit that its name ends with.
fn words(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match number.as_f64() {
            Some(bytes) if name.ends_with("_bytes") => quantity(bytes, Unit::Bytes),
            Some(hz) if name.ends_with("_hz") => quantity(hz, Unit::Hertz),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let between = if items.iter().any(Value::is_object) { "; " } else { ", " };
            items.iter().map(|it| words(name, it)).collect::<Vec<String>>().join(between)
        }
        Value::Object(fields) => {
            let known = fields.iter().map(|(name, it)| (name, words(name, it)));
            let known = known.filter(|(_, words)| !words.is_empty());
            known.map(|(name, words)| format!("{name} {words}")).collect::<Vec<String>>().join(", ")
        }
    }
}
