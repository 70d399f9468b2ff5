//! The machine: a table for reading, and every fact with its source.

use fathom_record::Host;
use fathom_record::Unit;
use fathom_record::quantity::quantity;

use super::block::{Block, PaperTable};
use super::heading;
use crate::column::Column;
use crate::hardware::hardware;

const UNKNOWN: &str = "not reported by this machine";

pub(super) fn chapter(host: &Host) -> Vec<Block> {
    let parts = hardware(host);
    let part = |label: &str| {
        parts.iter().find(|(name, _)| *name == label).map(|(_, words)| words.replace("; ", ";\n"))
    };
    let cpu = &host.cpu;
    let mut processor = vec![cpu.model.clone()];
    processor.push(format!("{} logical CPUs", cpu.logical));
    processor.extend(cpu.cores.map(|cores| format!("{cores} cores")));
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
    let system: Vec<String> = system.into_iter().flatten().collect();
    let rate = host.memory.modules.iter().find_map(|module| module.transfers_per_s);
    let bus = rate.map(|rate| format!("{} MT/s a module, by the firmware", rate / 1e6));
    let rows = [
        ("processor", Some(processor.join(", "))),
        ("caches", part("caches")),
        ("memory bus", bus),
        ("I/O buses", part("links")),
        ("memory", memory),
        ("memory modules", part("modules")),
        ("NUMA nodes", part("nodes")),
        ("disks", part("disks")),
        ("network cards", part("network")),
        ("system", Some(system.join(", "))),
    ];
    let names = rows.iter().map(|(name, _)| (*name).to_owned());
    let words = rows.iter().map(|(_, words)| words.clone().unwrap_or_else(|| UNKNOWN.to_owned()));
    let columns = vec![Column::words("part", names), Column::words("what it is", words)];
    let caption = format!("the machine {}", host.shown_name());
    vec![heading(2, "Machine"), Block::Table(PaperTable { caption, columns })]
}

/// Where each fact comes from.
pub(super) fn facts(host: &Host) -> Vec<Block> {
    if host.origins.is_empty() {
        return Vec::new();
    }
    let (facts, sources) = (host.origins.keys().cloned(), host.origins.values().cloned());
    let columns = vec![Column::words("fact", facts), Column::words("source", sources)];
    let caption = "where each fact of the machine comes from".to_owned();
    let table = PaperTable { caption, columns };
    vec![heading(2, "Appendix: facts of the machine"), Block::Table(table)]
}
