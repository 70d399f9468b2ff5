//! The collection of machines, and kinds of CPU.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::LazyLock;

use fathom_record::{Document, Headline, Host, Params, Record};
use flate2::read::DeflateDecoder;

use super::HUGE_SET_MIN;

/// The rows of `data/typical/machines.csv`, compressed by the build script.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/machines.csv.deflate"));

/// The columns of a collection; a file may have others.
const COLUMNS: [&str; 14] = [
    "provider",
    "type",
    "cpu_vendor",
    "cpu_family",
    "cpu_model",
    "cpu_name",
    "cpus",
    "hypervisor",
    "l3_bytes",
    "date",
    "latency_ns",
    "read_bytes_per_s",
    "write_bytes_per_s",
    "copy_bytes_per_s",
];

/// A type of machine, measured once.
#[derive(Clone, Debug, PartialEq)]
pub struct TypicalMachine {
    pub provider: String,
    /// The provider's name of the type, such as `m9g.large`.
    pub name: String,
    /// The kind of CPU by its numbers.
    pub kind: String,
    /// The kind of all generations with this model number, where several have it.
    pub(super) wider: Option<String>,
    /// The name that the CPU reports.
    pub cpu: String,
    /// Logical CPUs.
    pub cpus: u32,
    pub(super) l3_bytes: Option<u64>,
    /// Day of the measurement, such as `2026-04-04`.
    pub date: String,
    /// Bytes of the set and nanoseconds of a load, in ascending order of bytes.
    pub(super) latency: Vec<(u64, f64)>,
    /// Bytes of each CPU's buffer, and bytes per second of all CPUs: read, written, copied.
    pub(super) rates: [Option<(u64, f64)>; 3],
    /// Its row, with the sets that are used.
    line: [String; COLUMNS.len()],
}

/// The packaged machines.
///
/// # Panics
/// Never: a test reads all of them.
pub fn machines() -> &'static [TypicalMachine] {
    static MACHINES: LazyLock<Vec<TypicalMachine>> = LazyLock::new(|| {
        let mut text = String::new();
        DeflateDecoder::new(PACKED).read_to_string(&mut text).expect("packed by the build script");
        rows(&text).expect("checked when it was written")
    });
    &MACHINES
}

/// The machines of a collection.
///
/// # Errors
/// The line, column and value that no machine can have.
pub fn rows(text: &str) -> Result<Vec<TypicalMachine>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    let at = |name: &&str| {
        let found = header.iter().position(|one| one == *name);
        found.ok_or_else(|| format!("line 1: no column {name}"))
    };
    let columns = COLUMNS.iter().map(at).collect::<Result<Vec<usize>, _>>()?;
    let one = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.map_err(|error| error.to_string())?;
        let line = row.position().map_or(0, csv::Position::line);
        let cells = columns.iter().map(|at| row.get(*at).unwrap_or_default().to_owned());
        let cells = cells.collect::<Vec<_>>().try_into().expect("as many columns");
        machine(cells).map_err(|error| format!("line {line}: {error}"))
    };
    reader.records().map(one).collect()
}

/// The machines as a collection, ordered by provider and type.
#[must_use]
pub fn collection(machines: &[TypicalMachine]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut sorted: Vec<&TypicalMachine> = machines.iter().collect();
    sorted.sort_by_key(|one| (&one.provider, &one.name));
    let in_memory = "writing to memory";
    writer.write_record(COLUMNS).expect(in_memory);
    sorted.iter().for_each(|one| writer.write_record(&one.line).expect(in_memory));
    String::from_utf8(writer.into_inner().expect(in_memory)).expect("all cells are text")
}

const SET_MAX: u64 = 1 << 40;
const NS_MAX: f64 = 1e5;
/// Of all CPUs.
const RATE_MAX: f64 = 1e15;
const CPUS_MAX: u32 = 1 << 16;
/// Within L1. Between L1 and L3 the sets of the collection hit both levels before them.
const SMALL_SETS: [u64; 2] = [16 << 10, 32 << 10];

fn machine(mut line: [String; COLUMNS.len()]) -> Result<TypicalMachine, String> {
    let wrong = |column: usize| format!("{}: invalid value {:?}", COLUMNS[column], line[column]);
    let [provider, name, vendor, family, model, cpu, cpus, _, l3_bytes, date, ..] = &line;
    if provider.is_empty() || name.is_empty() || name.contains('/') {
        return Err(wrong(1));
    }
    let cpus = cpus.parse().ok().filter(|cpus| (1..=CPUS_MAX).contains(cpus));
    let cpus = cpus.ok_or_else(|| wrong(6))?;
    let l3_bytes = match l3_bytes.as_str() {
        "" => None,
        bytes => Some(bytes.parse().ok().filter(|bytes| *bytes > 0).ok_or_else(|| wrong(8))?),
    };
    date.parse::<jiff::civil::Date>().map_err(|_| wrong(9))?;
    let numbers = [family, model].map(|text| text.parse::<u32>().ok());
    let (kind, wider) = kind_of_row(vendor, numbers, cpu).ok_or_else(|| wrong(5))?;
    let mut latency = pairs(&line[10], NS_MAX).ok_or_else(|| wrong(10))?;
    latency.retain(|(set, _)| *set >= HUGE_SET_MIN || SMALL_SETS.contains(set));
    let mut rates = [None; 3];
    for (rate, column) in rates.iter_mut().zip(11..) {
        *rate = pairs(&line[column], RATE_MAX).ok_or_else(|| wrong(column))?.pop();
    }
    let [provider, name, cpu, date] = [provider, name, cpu, date].map(Clone::clone);
    line[10] = joined(&latency);
    for (rate, column) in rates.iter().zip(11..) {
        line[column] = joined(rate.as_slice());
    }
    Ok(TypicalMachine {
        provider,
        name,
        kind,
        wider,
        cpu,
        cpus,
        l3_bytes,
        date,
        latency,
        rates,
        line,
    })
}

/// `bytes:value;bytes:value`, in ascending order of bytes; `None` if it is not.
fn pairs(text: &str, most: f64) -> Option<Vec<(u64, f64)>> {
    let one = |pair: &str| {
        let (set, value) = pair.split_once(':')?;
        let (set, value) = (set.parse().ok()?, value.parse().ok()?);
        ((1..=SET_MAX).contains(&set) && value > 0.0 && value <= most).then_some((set, value))
    };
    let pairs = text.split(';').filter(|pair| !pair.is_empty()).map(one);
    let pairs = pairs.collect::<Option<Vec<(u64, f64)>>>()?;
    pairs.is_sorted_by(|a, b| a.0 < b.0).then_some(pairs)
}

/// To four significant figures.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn joined(pairs: &[(u64, f64)]) -> String {
    let one = |(set, value): &(u64, f64)| match *value >= 1e6 {
        true => format!("{set}:{value:e}"),
        false => format!("{set}:{value}"),
    };
    pairs.iter().map(one).collect::<Vec<String>>().join(";")
}

/// CPUs by the numbers that they report: the names of their generations.
#[rustfmt::skip]
const GENERATIONS: [(&str, u32, u32, &str); 21] = [
    ("AuthenticAMD", 23, 1, "AMD EPYC Naples"),
    ("AuthenticAMD", 23, 49, "AMD EPYC Rome"),
    ("AuthenticAMD", 25, 1, "AMD EPYC Milan"),
    ("AuthenticAMD", 25, 17, "AMD EPYC Genoa"),
    ("AuthenticAMD", 26, 2, "AMD EPYC Turin"),
    ("GenuineIntel", 6, 60, "Intel Haswell (client)"),
    ("GenuineIntel", 6, 61, "Intel Broadwell (client)"),
    ("GenuineIntel", 6, 63, "Intel Xeon Haswell"),
    ("GenuineIntel", 6, 79, "Intel Xeon Broadwell"),
    ("GenuineIntel", 6, 85, "Intel Xeon Skylake to Cooper Lake"),
    ("GenuineIntel", 6, 94, "Intel Skylake (client)"),
    ("GenuineIntel", 6, 106, "Intel Xeon Ice Lake"),
    ("GenuineIntel", 6, 143, "Intel Xeon Sapphire Rapids"),
    ("GenuineIntel", 6, 173, "Intel Xeon Granite Rapids"),
    ("GenuineIntel", 6, 207, "Intel Xeon Emerald Rapids"),
    (ARM, ARM_LTD, 0xd0c, "Neoverse-N1"),
    (ARM, ARM_LTD, 0xd40, "Neoverse-V1"),
    (ARM, ARM_LTD, 0xd49, "Neoverse-N2"),
    (ARM, ARM_LTD, 0xd4f, "Neoverse-V2"),
    (ARM, ARM_LTD, 0xd84, "Neoverse-V3"),
    (ARM, ARM_LTD, 0xd8e, "Neoverse-N3"),
];
const ARM: &str = "ARM";
/// The implementer of Arm's own cores.
const ARM_LTD: u32 = 0x41;
/// One model number of three generations, which its stepping distinguishes.
const SHARED_MODEL: (&str, u32, u32) = ("GenuineIntel", 6, 85);
const SKYLAKE: &str = "Intel Xeon Skylake";
const CASCADE_LAKE: &str = "Intel Xeon Cascade Lake";
const COOPER_LAKE: &str = "Intel Xeon Cooper Lake";

fn kind(vendor: &str, family: u32, model: u32) -> String {
    let known = GENERATIONS.iter().find(|one| (one.0, one.1, one.2) == (vendor, family, model));
    match known {
        Some((.., name)) => (*name).to_owned(),
        None => format!("{vendor} family {family}, model {model}"),
    }
}

/// The kinds of a host's CPU, the narrowest first; none if it does not report its numbers.
pub(super) fn kinds(host: &Host) -> Vec<String> {
    let cpu = &host.cpu;
    let numbers = cpu.vendor.as_deref().zip(cpu.family).zip(cpu.model_number);
    let Some(((vendor, family), model)) = numbers else { return Vec::new() };
    let by_stepping = match cpu.stepping.filter(|_| (vendor, family, model) == SHARED_MODEL) {
        Some(0..=4) => Some(SKYLAKE),
        Some(5..=7) => Some(CASCADE_LAKE),
        Some(10..=11) => Some(COOPER_LAKE),
        _ => None,
    };
    by_stepping.map(str::to_owned).into_iter().chain([kind(vendor, family, model)]).collect()
}

/// The kind of a row, which has no stepping but a name, and the wider kind.
fn kind_of_row(
    vendor: &str,
    numbers: [Option<u32>; 2],
    name: &str,
) -> Option<(String, Option<String>)> {
    if vendor == ARM {
        // Its numbers are those of the revision.
        return (!name.is_empty()).then(|| (name.to_owned(), None));
    }
    let (family, model) = (numbers[0]?, numbers[1]?);
    let kind = kind(vendor, family, model);
    if (vendor, family, model) != SHARED_MODEL {
        return Some((kind, None));
    }
    // Platinum 8163, Gold 6248R, Platinum 8369HB: the second digit is the generation.
    let number = |word: &str| {
        let digits: Vec<char> = word.chars().take_while(char::is_ascii_digit).collect();
        (digits.len() == 4).then(|| digits[1])
    };
    let generation = match name.split(' ').find_map(number) {
        Some('1') => SKYLAKE,
        Some('2') => CASCADE_LAKE,
        Some('3') => COOPER_LAKE,
        _ => return Some((kind, None)),
    };
    Some((generation.to_owned(), Some(kind)))
}

/// The kinds whose reported names begin most like this one, if that is more than a maker's name.
pub(super) fn nearest_by_name(name: &str) -> String {
    const LETTERS_MIN: usize = 9;
    let common = |other: &str| name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let most = machines().iter().map(|one| common(&one.cpu)).max().unwrap_or(0);
    if most < LETTERS_MIN {
        return String::new();
    }
    let nearest = machines().iter().filter(|one| common(&one.cpu) == most);
    let kinds: BTreeSet<&str> = nearest.map(|one| one.kind.as_str()).collect();
    kinds.into_iter().collect::<Vec<&str>>().join(", ")
}

/// The row of a run for the collection, without the host's name or id.
///
/// # Errors
/// What the run does not have.
pub fn row(document: &Document, provider: &str, name: &str) -> Result<TypicalMachine, String> {
    let Document { host, records, run, .. } = document;
    let cpu = &host.cpu;
    let value = |metric: &str, params: &Params| {
        let is_it = |one: &&Record| one.metric.as_str() == metric && one.params == *params;
        let record = records.iter().find(is_it)?;
        // The median of a set between two memory levels is that of neither.
        Headline::from(record).value.filter(|_| record.on_cliff().is_none())
    };
    // As the collection has them: small sets on pages of 4 KiB.
    let of_set = |shift: u32| {
        let set = 1u64 << shift;
        let page = if set >= HUGE_SET_MIN { "huge" } else { "4K" };
        let params =
            Params::one("pattern", "random").and("page", page).and("set_bytes", set as i64);
        Some((set, rounded(value("memory.latency", &params)?)))
    };
    let latency: Vec<(u64, f64)> = (14..40).filter_map(of_set).collect();
    let largest = latency.last().map(|(set, _)| *set).filter(|set| *set >= HUGE_SET_MIN);
    let largest = largest.ok_or_else(|| format!("run {} has no latency of memory", run.id))?;
    let threads = cpu.cores.unwrap_or(cpu.logical);
    let rate = |op: &str| {
        let params = Params::one("op", op).and("threads", i64::from(threads)).and("level", "dram");
        let rate = value("memory.bandwidth", &params.and("page", "huge"))?;
        let counted = if op == "copy" { 2.0 } else { 1.0 };
        // All arrays together, of as many CPUs as the row has.
        Some((largest / u64::from(cpu.logical.max(1)), rounded(rate / counted)))
    };
    let rates = ["read", "write", "copy"].map(|op| joined(rate(op).as_slice()));
    let number = |number: Option<u32>| number.map_or_else(String::new, |it| it.to_string());
    let vendor = cpu.vendor.clone().unwrap_or_default();
    let reported = if vendor == ARM { kinds(host).pop() } else { None };
    let l3 = cpu.caches.iter().find(|cache| cache.level == 3);
    let [read, write, copy] = rates;
    machine([
        provider.to_owned(),
        name.to_owned(),
        vendor,
        number(cpu.family),
        number(cpu.model_number),
        reported.unwrap_or_else(|| cpu.model.clone()),
        cpu.logical.to_string(),
        host.virtualization.clone().filter(|kind| kind != "none").unwrap_or_default(),
        l3.map_or_else(String::new, |cache| cache.size_bytes.to_string()),
        run.started.chars().take("2026-04-04".len()).collect(),
        joined(&latency),
        read,
        write,
        copy,
    ])
}
