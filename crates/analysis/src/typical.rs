//! Typical values: where published measurements of rented machines with this CPU lie.
//!
//! DRAM, a provider's cores and its other guests have no public formula. What machines of the same
//! kind gave answers what a model cannot: "is this what such a machine gives?". The machines are
//! data (`data/typical/machines.csv`, with source and licence), grouped by CPU and size.

mod machines;

pub use machines::{TypicalMachine, collection, machines, row, rows};

use fathom_record::quantity::counted;
use fathom_record::{Better, Document, Headline, Host, Position, Record, Reference, Typical};
use serde::Serialize;

use crate::evidence::{not_judged, reason};
use crate::statistics::quantile;

/// Fewer machine types have no typical range.
pub const GROUP_MIN: usize = 8;
const LOW: f64 = 0.05;
const HIGH: f64 = 0.95;
/// Smaller sets were measured on pages of 4 KiB.
const HUGE_SET_MIN: u64 = 4 << 20;
/// A quarter of what the cores of an EPYC share.
const L3_SET_MAX: u64 = 8 << 20;
/// The CPUs of small, middle and large machines.
const SIZES: [(u32, u32, &str); 3] =
    [(1, 4, "up to 4 CPUs"), (5, 16, "5 to 16 CPUs"), (17, u32::MAX, "more than 16 CPUs")];

/// What was measured alike in the collection and by Fathom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypicalSubject {
    /// A random chase through this many bytes on huge pages.
    Latency(u64),
    L1,
    L3,
    Dram,
    /// All CPUs read, write or copy arrays that no cache holds.
    Rate(TypicalOperation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypicalOperation {
    Read,
    Write,
    Copy,
}

/// Judges the records of a run that a view reads.
pub fn fill(document: &mut Document) {
    let Document { run, host, records, .. } = document;
    records.iter_mut().for_each(|record| fill_record(record, host, run.reference.as_ref()));
}

/// Sets whether a number says something of the machine, and its place among machines like this
/// host. Earlier ones are overwritten: they may come from a file, or from another version of the
/// collection.
pub fn fill_record(record: &mut Record, host: &Host, core: Option<&Reference>) {
    record.not_judged = reason(record, core);
    record.typical = typical_of(record, host);
}

/// Where machines like this host lie, beside a record with a number.
#[must_use]
pub fn typical_of(record: &Record, host: &Host) -> Option<Typical> {
    let subject = subject(record, host)?;
    let headline = Headline::from(record);
    // A range between two memory levels has no position.
    let number = headline.value.filter(|_| record.on_cliff().is_none())?;
    let TypicalGroup { cpu, size, values } = group(subject, host)?;
    let [low, median, high] = [LOW, 0.5, HIGH].map(|q| quantile(&values, q));
    let (low, median, high) = (low?, median?, high?);
    let count = |is: &dyn Fn(f64) -> bool| values.iter().filter(|value| is(**value)).count() as u32;
    let (above, below) = (count(&|value| value > number), count(&|value| value < number));
    let [from, to] = headline.interval.unwrap_or([number; 2]);
    let is_lower_better = record.better == Better::Lower;
    let is_beyond = to < low || from > high || number < low || number > high;
    let not_judged = not_judged(record).filter(|_| is_beyond);
    let position = match (to < low, from > high) {
        _ if not_judged.is_some() => Position::NotJudged,
        (false, false) => Position::Typical,
        (is_below, _) if is_below == is_lower_better => Position::Better,
        _ => Position::Worse,
    };
    let (better, worse) = if is_lower_better { (below, above) } else { (above, below) };
    let n = values.len() as u32;
    Some(Typical { cpu, size, n, low, median, high, better, worse, position, not_judged })
}

/// The number of a machine type beside a record of this host.
#[must_use]
pub fn value_of(machine: &TypicalMachine, record: &Record, host: &Host) -> Option<f64> {
    machine.value(subject(record, host)?)
}

/// Why nothing of this host has a typical range; `None` if something can have one.
#[must_use]
pub fn absence(host: &Host) -> Option<String> {
    let kinds = machines::kinds(host);
    let count = machines().iter().filter(|machine| kinds.contains(&machine.kind)).count();
    if count >= GROUP_MIN {
        return None;
    }
    if count > 0 {
        let kind = kinds.last().map_or("", String::as_str);
        return Some(format!(
            "no typical range for this CPU: {count} published machine types with {kind}, at least \
             {GROUP_MIN} are needed"
        ));
    }
    let kin = machines::nearest_by_name(&host.cpu.model);
    let kin = if kin.is_empty() { String::new() } else { format!("; nearest by name: {kin}") };
    Some(format!("no typical range for this CPU ({}){kin}", host.cpu.model))
}

/// The numbers of a run beside those of published machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypicalBeside {
    pub run: String,
    pub host: String,
    pub cpu: String,
    /// Why there are no rows, if this CPU has no typical range.
    pub absence: Option<String>,
    /// The machine type beside them.
    pub like: Option<Like>,
    /// The most unusual first.
    pub rows: Vec<TypicalRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Like {
    /// `aws/m9g.large`.
    pub name: String,
    /// Day of its measurement.
    pub date: String,
}

/// A number that has a typical range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypicalRow {
    pub record: Record,
    /// The number of the machine type beside it, in the unit of the record.
    pub like: Option<f64>,
}

impl TypicalRow {
    /// # Panics
    /// Never: only records with a typical range are rows.
    pub fn typical(&self) -> &Typical {
        self.record.typical.as_ref().expect("chosen by it")
    }
}

/// All numbers of a run that have a typical range, after [`fill`].
#[must_use]
pub fn beside(document: &Document, like: Option<&TypicalMachine>) -> TypicalBeside {
    let Document { run, host, records, .. } = document;
    let row = |record: &Record| {
        record.typical.as_ref()?;
        let like = like.and_then(|machine| value_of(machine, record, host));
        Some(TypicalRow { record: record.clone(), like })
    };
    let mut rows: Vec<TypicalRow> = records.iter().filter_map(row).collect();
    rows.sort_by(|a, b| unusual(b).total_cmp(&unusual(a)));
    TypicalBeside {
        run: fathom_record::name(&run.id, run.label.as_deref()),
        host: host.name.clone(),
        cpu: match host.cpu.logical {
            0 => host.cpu.model.clone(),
            cpus => format!("{}, {cpus} logical CPUs", host.cpu.model),
        },
        absence: absence(host),
        like: like.map(|it| Like { name: it.full_name(), date: it.date.clone() }),
        rows,
    }
}

/// How far a number is outside its typical range: |ln(number ÷ nearer end)|; `None` within it.
#[must_use]
pub fn distance(record: &Record) -> Option<f64> {
    let typical = record
        .typical
        .as_ref()
        .filter(|it| !matches!(it.position, Position::Typical | Position::NotJudged))?;
    let value = Headline::from(record).value?;
    let [low, high] = [typical.low, typical.high].map(|end| (value / end).ln().abs());
    Some(low.min(high))
}

/// Numbers outside the range first, then by the distance from the median.
fn unusual(row: &TypicalRow) -> f64 {
    let median = row.typical().median;
    let value = Headline::from(&row.record).value.unwrap_or(median);
    distance(&row.record).map_or_else(|| (value / median).ln().abs().min(1.0), |far| 1.0 + far)
}

/// The machine type with this name, such as `aws/m9g.large`.
///
/// # Errors
/// The types whose names are nearest.
pub fn find(name: &str) -> Result<&'static TypicalMachine, String> {
    if let Some(found) = machines().iter().find(|one| one.full_name().eq_ignore_ascii_case(name)) {
        return Ok(found);
    }
    // `gcp/c3d` and `c3d`: the types that have it in their names.
    let contains = |one: &&TypicalMachine| one.full_name().contains(&name.to_ascii_lowercase());
    let with: Vec<String> = machines()
        .iter()
        .filter(contains)
        .map(TypicalMachine::full_name)
        .take(NEAREST_MAX + 1)
        .collect();
    if !with.is_empty() && name.len() > 1 {
        let more = if with.len() > NEAREST_MAX { " and others" } else { "" };
        let with = with[..with.len().min(NEAREST_MAX)].join(", ");
        return Err(format!("no machine type {name}, but {with}{more}"));
    }
    // Those that begin most like it.
    let common = |one: &TypicalMachine| {
        name.chars().zip(one.full_name().chars()).take_while(|(a, b)| a == b).count()
    };
    let mut near: Vec<(usize, &TypicalMachine)> =
        machines().iter().map(|one| (common(one), one)).collect();
    near.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
    near.retain(|(shared, _)| *shared >= LETTERS_MIN);
    let near: Vec<String> = near.iter().take(NEAREST).map(|(_, one)| one.full_name()).collect();
    let near = match near.is_empty() {
        true => "they are named PROVIDER/TYPE, such as aws/m9g.large".to_owned(),
        false => format!("nearest: {}", near.join(", ")),
    };
    Err(format!("no machine type {name} among {} published ones; {near}", machines().len()))
}

const NEAREST: usize = 5;
/// Types with the name as a part.
const NEAREST_MAX: usize = 20;
/// A provider and the beginning of a type.
const LETTERS_MIN: usize = 6;

struct TypicalGroup {
    cpu: String,
    size: Option<String>,
    /// In ascending order.
    values: Vec<f64>,
}

/// The narrowest group with enough machines: of this CPU and size, of this CPU, and the same of the
/// wider kind of a model number that several generations have.
fn group(subject: TypicalSubject, host: &Host) -> Option<TypicalGroup> {
    let cpus = host.cpu.logical;
    let of_size = SIZES.iter().find(|(from, to, _)| (*from..=*to).contains(&cpus))?;
    let sizes = match subject {
        // What all CPUs move does not grow with their number: only machines of as many are alike.
        TypicalSubject::Rate(_) => vec![Some((cpus, cpus, counted(cpus as usize, "CPU")))],
        _ => vec![Some((of_size.0, of_size.1, of_size.2.to_owned())), None],
    };
    let group = |cpu: &String, size: &Option<(u32, u32, String)>| {
        let is_alike = |machine: &&TypicalMachine| {
            let is_of_size = |(from, to, _): &(u32, u32, _)| (*from..=*to).contains(&machine.cpus);
            let has_cpu = machine.kind == *cpu || machine.wider.as_ref() == Some(cpu);
            has_cpu && size.as_ref().is_none_or(is_of_size)
        };
        let alike = machines().iter().filter(is_alike);
        let mut values: Vec<f64> = alike.filter_map(|machine| machine.value(subject)).collect();
        values.sort_by(f64::total_cmp);
        TypicalGroup {
            cpu: cpu.clone(),
            size: size.as_ref().map(|(.., name)| name.clone()),
            values,
        }
    };
    let kinds = machines::kinds(host);
    let mut groups = kinds.iter().flat_map(|cpu| sizes.iter().map(|size| group(cpu, size)));
    groups.find(|group| group.values.len() >= GROUP_MIN)
}

fn subject(record: &Record, host: &Host) -> Option<TypicalSubject> {
    let text = |name: &str| record.params.text(name).unwrap_or_default();
    let set = || record.params.integer("set_bytes").and_then(|set| u64::try_from(set).ok());
    let is_huge = text("page") == "huge";
    match record.metric.as_str() {
        "memory.latency" => set()
            .filter(|set| is_huge && text("pattern") == "random" && *set >= HUGE_SET_MIN)
            .map(TypicalSubject::Latency),
        "memory.latency.l1" => Some(TypicalSubject::L1),
        "memory.latency.l3" => Some(TypicalSubject::L3),
        "memory.latency.dram" => Some(TypicalSubject::Dram),
        "memory.bandwidth" if is_huge && text("level") == "dram" => {
            // One thread a core is what all CPUs can move.
            let all = host.cpu.cores.unwrap_or(host.cpu.logical);
            let threads = record.params.integer("threads")?;
            let operation = match text("op") {
                "read" => TypicalOperation::Read,
                "write" => TypicalOperation::Write,
                "copy" => TypicalOperation::Copy,
                _ => return None,
            };
            (threads == i64::from(all)).then_some(TypicalSubject::Rate(operation))
        }
        _ => None,
    }
}

impl TypicalMachine {
    /// `aws/m9g.large`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }

    /// In the unit of Fathom's metric.
    fn value(&self, subject: TypicalSubject) -> Option<f64> {
        const KIB: u64 = 1 << 10;
        match subject {
            TypicalSubject::Latency(set) => self.latency(set),
            TypicalSubject::L1 => self.latency(16 * KIB).or_else(|| self.latency(32 * KIB)),
            TypicalSubject::L3 => {
                // It may be the sum of several caches, of which a core has one.
                let most = (self.l3_bytes? / 4).min(L3_SET_MAX);
                let within = |&&(set, _): &&(u64, f64)| set >= HUGE_SET_MIN && set <= most;
                Some(self.latency.iter().rev().find(within)?.1)
            }
            // Not of sets of which the last cache holds a large part.
            TypicalSubject::Dram => {
                let &(set, ns) = self.latency.last()?;
                (2 * set >= 7 * self.l3_bytes?).then_some(ns)
            }
            TypicalSubject::Rate(operation) => {
                let (set, rate) = self.rates[operation as usize]?;
                let is_large = set * u64::from(self.cpus) >= 4 * self.l3_bytes?;
                // The collection counts what is copied once, Fathom what is read and written.
                let factor = if operation == TypicalOperation::Copy { 2.0 } else { 1.0 };
                is_large.then_some(factor * rate)
            }
        }
    }

    fn latency(&self, wanted: u64) -> Option<f64> {
        self.latency.iter().find(|(set, _)| *set == wanted).map(|(_, ns)| *ns)
    }
}
