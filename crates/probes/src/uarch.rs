//! Constants of the CPU's micro-architecture, from `data/uarch.toml`, each with its public source.
//!
//! They are the hardware terms that no earlier metric can give. A constant that nobody published is
//! absent: its metric then has no model, which is an answer. Nothing here is measured.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fathom_record::host::Cpu;
use fathom_record::{Host, NoModel, Origin};
use serde::Deserialize;

/// Imposes a row by its name, so that a wrong one can be seen to turn predictions to *differs*.
pub const OVERRIDE: &str = "FATHOM_UARCH";

/// The table, part of the program.
const TABLE: &str = include_str!("../../../data/uarch.toml");

/// Every name a constant may have; another is a slip of the pen.
pub const NAMES: &[&str] = &[
    "add_latency_cycles",
    "call_ret_cycles",
    "l1_cycles",
    "l1_read_bytes_per_cycle",
    "l2_cycles",
    "l2_read_bytes_per_cycle",
    "l3_cycles",
    "lock_cmpxchg_cycles",
    "moves_per_cycle",
    "rdtsc_cycles",
    "rdtscp_cycles",
    "stack_argument_cycles",
    "stamp_pair_cycles",
    "store_forward_cycles",
    "store_forward_unrenamed_cycles",
    "taken_branch_cycles",
    "time_conversion_cycles",
    "xchg_memory_cycles",
];

/// What is known of one micro-architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Short name, as [`OVERRIDE`] takes it.
    pub name: String,
    /// Name for people.
    pub title: String,
    constants: BTreeMap<String, Constant>,
    fits: Fits,
}

/// One constant, in core clock cycles, or a count a cycle where its name ends in `_per_cycle`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The value.
    pub value: f64,
    /// Lower limit, where the source gives a range.
    pub low: Option<f64>,
    /// Upper limit, where the source gives a range.
    pub high: Option<f64>,
    /// Where it was published: the work, then the place in it.
    pub source: String,
}

impl Row {
    /// A constant, if it has a public source.
    pub fn constant(&self, name: &str) -> Option<&Constant> {
        self.constants.get(name)
    }

    /// A constant that a prediction needs.
    ///
    /// # Errors
    /// That it has no public source.
    pub fn sourced(&self, name: &str) -> Result<&Constant, NoModel> {
        let missing = || NoModel::NotPublished { figure: name.to_owned(), cpu: self.title.clone() };
        self.constant(name).ok_or_else(missing)
    }

    /// All constants by name.
    pub fn constants(&self) -> impl Iterator<Item = (&str, &Constant)> {
        self.constants.iter().map(|(name, constant)| (name.as_str(), constant))
    }

    /// Whether this is the row for a CPU without one of its own.
    pub fn is_generic(&self) -> bool {
        self.fits.core.is_none()
    }

    /// Where a prediction says that its input comes from.
    pub fn origin(&self) -> Origin {
        Origin::Table { row: self.name.clone() }
    }
}

/// The row of the host's CPU, the generic row of its architecture if it has none, or the row that
/// `FATHOM_UARCH` names.
///
/// # Errors
/// An unknown name in `FATHOM_UARCH`, with the names there are, or an architecture without a row.
pub fn row_for(host: &Host) -> Result<&'static Row, NoConstants> {
    let imposed = std::env::var(OVERRIDE).ok().filter(|name| !name.is_empty());
    choose(rows()?, &host.cpu, imposed.as_deref())
}

/// All rows, in the order of the table.
///
/// # Errors
/// What is wrong with the table; a test of this module keeps that from being shipped.
pub fn rows() -> Result<&'static [Row], TableError> {
    static ROWS: OnceLock<Result<Vec<Row>, TableError>> = OnceLock::new();
    match ROWS.get_or_init(|| parse(TABLE)) {
        Ok(rows) => Ok(rows),
        Err(error) => Err(error.clone()),
    }
}

/// Why there are no constants of a CPU.
#[derive(Debug, thiserror::Error)]
pub enum NoConstants {
    /// The table is wrong.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The row that is imposed is not there.
    #[error("{OVERRIDE}={name}: no such row; known are {}", .known.join(", "))]
    UnknownRow {
        /// Its name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// No row is of this architecture.
    #[error("no row for the architecture `{0}`")]
    UnknownArchitecture(String),
}

impl From<NoConstants> for NoModel {
    fn from(error: NoConstants) -> Self {
        match error {
            NoConstants::UnknownArchitecture(architecture) => {
                Self::UnknownArchitecture { architecture }
            }
            error => Self::UnusableTable { reason: error.to_string() },
        }
    }
}

/// What is wrong with the table, and where.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TableError {
    place: String,
    problem: String,
}

/// That something is wrong in a row, or in the table.
fn wrong(place: &str, problem: impl Into<String>) -> TableError {
    TableError { place: format!("data/uarch.toml: {place}"), problem: problem.into() }
}

fn choose<'r>(rows: &'r [Row], cpu: &Cpu, imposed: Option<&str>) -> Result<&'r Row, NoConstants> {
    if let Some(name) = imposed {
        return rows.iter().find(|row| row.name == name).ok_or_else(|| NoConstants::UnknownRow {
            name: name.to_owned(),
            known: rows.iter().map(|row| row.name.clone()).collect(),
        });
    }
    let of_architecture = || rows.iter().filter(|row| row.fits.architecture == cpu.architecture);
    of_architecture()
        .find(|row| row.fits.core.as_ref().is_some_and(|core| core.is(cpu)))
        .or_else(|| of_architecture().find(|row| row.is_generic()))
        .ok_or_else(|| NoConstants::UnknownArchitecture(cpu.architecture.clone()))
}

/// Which CPUs a row is for; without `core`, every one of the architecture that no other row has.
#[derive(Clone, Debug, PartialEq)]
struct Fits {
    architecture: String,
    core: Option<Core>,
}

/// The cores of a row: family and model on x86-64, implementer and part on aarch64.
#[derive(Clone, Debug, PartialEq)]
struct Core {
    /// Absent on aarch64, whose implementer is a number.
    vendor: Option<String>,
    family: u32,
    /// First and last of each range.
    models: Vec<[u32; 2]>,
}

impl Core {
    fn is(&self, cpu: &Cpu) -> bool {
        let vendor = self.vendor.is_none() || self.vendor == cpu.vendor;
        let model =
            |model| self.models.iter().any(|&[first, last]| (first..=last).contains(&model));
        vendor && cpu.family == Some(self.family) && cpu.model_number.is_some_and(model)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meets = |[first, last]: [u32; 2], with: [u32; 2]| first <= with[1] && with[0] <= last;
        let any = |range| other.models.iter().any(|&with| meets(range, with));
        self.vendor == other.vendor
            && self.family == other.family
            && self.models.iter().any(|&range| any(range))
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sources: BTreeMap<String, String>,
    row: Vec<FileRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    name: String,
    title: String,
    architecture: String,
    vendor: Option<String>,
    family: Option<u32>,
    #[serde(default)]
    models: Vec<[u32; 2]>,
    #[serde(default)]
    generic: bool,
    constants: BTreeMap<String, FileConstant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileConstant {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    source: String,
    at: String,
}

fn parse(text: &str) -> Result<Vec<Row>, TableError> {
    let file: File = toml::from_str(text).map_err(|error| wrong("TOML", error.to_string()))?;
    let mut rows: Vec<Row> = Vec::new();
    for row in file.row {
        let row = row_of(row, &file.sources)?;
        if rows.iter().any(|other| other.name == row.name) {
            return Err(wrong(&row.name, "the name is taken"));
        }
        if let Some(other) = rows.iter().find(|other| other.fits.meets(&row.fits)) {
            return Err(wrong(&row.name, format!("row `{}` has such a CPU already", other.name)));
        }
        rows.push(row);
    }
    Ok(rows)
}

impl Fits {
    fn meets(&self, other: &Self) -> bool {
        self.architecture == other.architecture
            && match (&self.core, &other.core) {
                (Some(core), Some(with)) => core.overlaps(with),
                (None, None) => true,
                _ => false,
            }
    }
}

fn row_of(row: FileRow, sources: &BTreeMap<String, String>) -> Result<Row, TableError> {
    let core = match (row.generic, row.family) {
        (true, None) if row.models.is_empty() && row.vendor.is_none() => None,
        (false, Some(family)) if !row.models.is_empty() => {
            if let Some([first, last]) = row.models.iter().find(|[first, last]| first > last) {
                let problem = format!("models {first:#x} to {last:#x} run backwards");
                return Err(wrong(&row.name, problem));
            }
            Some(Core { vendor: row.vendor, family, models: row.models })
        }
        _ => {
            let problem = "either a family with models, or `generic = true` alone";
            return Err(wrong(&row.name, problem));
        }
    };
    let mut constants = BTreeMap::new();
    for (name, constant) in row.constants {
        let place = format!("{}.{name}", row.name);
        constants.insert(name.clone(), constant_of(&name, &place, constant, sources)?);
    }
    let fits = Fits { architecture: row.architecture, core };
    Ok(Row { name: row.name, title: row.title, constants, fits })
}

fn constant_of(
    name: &str,
    place: &str,
    constant: FileConstant,
    sources: &BTreeMap<String, String>,
) -> Result<Constant, TableError> {
    let FileConstant { value, low, high, source, at } = constant;
    if !NAMES.contains(&name) {
        return Err(wrong(place, format!("unknown; known are {}", NAMES.join(", "))));
    }
    let ordered = low.unwrap_or(value) <= value && value <= high.unwrap_or(value);
    if !(value.is_finite() && value >= 0.0 && low.unwrap_or(0.0) >= 0.0 && ordered) {
        return Err(wrong(place, "expected 0 <= low <= value <= high"));
    }
    let work = sources.get(&source).filter(|work| !work.trim().is_empty());
    let work = work.ok_or_else(|| wrong(place, format!("no source `{source}` is listed")))?;
    if at.trim().is_empty() {
        return Err(wrong(place, "the place in the source is missing"));
    }
    Ok(Constant { value, low, high, source: format!("{work}: {at}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(architecture: &str, vendor: &str, family: u32, model: u32) -> Cpu {
        Cpu {
            architecture: architecture.to_owned(),
            vendor: Some(vendor.to_owned()),
            family: Some(family),
            model_number: Some(model),
            ..Cpu::default()
        }
    }

    fn chosen(cpu: &Cpu) -> &'static str {
        &choose(rows().unwrap(), cpu, None).unwrap().name
    }

    #[test]
    fn the_table_that_is_shipped_is_valid() {
        let rows = rows().unwrap();
        assert!(rows.len() > 10);
        assert_eq!(rows.iter().filter(|row| row.is_generic()).count(), 2);
        for row in rows {
            for name in ["taken_branch_cycles", "add_latency_cycles"] {
                assert!(row.constant(name).is_some(), "{} lacks {name}", row.name);
            }
        }
    }

    #[test]
    fn each_cpu_gets_the_row_of_its_core() {
        let x86 = |vendor, family, model| chosen(&cpu("x86_64", vendor, family, model));
        let amd = |family, model| x86("AuthenticAMD", family, model);
        let intel = |model| x86("GenuineIntel", 6, model);
        assert_eq!(amd(25, 17), "zen4"); // EPYC 9004
        assert_eq!(amd(0x19, 0x61), "zen4"); // Ryzen 7000
        assert_eq!(amd(0x19, 0xa0), "zen4"); // EPYC 97x4
        assert_eq!(amd(0x19, 0x01), "zen3"); // EPYC 7003
        assert_eq!(amd(0x19, 0x21), "zen3"); // Ryzen 5000
        assert_eq!(amd(0x17, 0x31), "zen2"); // EPYC 7002
        assert_eq!(amd(0x1a, 0x02), "zen5"); // EPYC 9005
        assert_eq!(intel(0x55), "skylake-server");
        assert_eq!(intel(0x5e), "skylake");
        assert_eq!(intel(0x6a), "ice-lake");
        assert_eq!(intel(0x8f), "golden-cove");
        assert_eq!(intel(0x3d), "broadwell");
    }

    #[test]
    fn an_arm_core_is_known_by_implementer_and_part() {
        assert_eq!(chosen(&cpu("aarch64", "ARM", 0x41, 0xd0c)), "neoverse-n1");
        assert_eq!(chosen(&cpu("aarch64", "ARM", 0x41, 0xd40)), "neoverse-v1");
        assert_eq!(chosen(&cpu("aarch64", "APM", 0x50, 0x000)), "generic-aarch64");
    }

    #[test]
    fn a_cpu_without_a_row_gets_the_generic_one_of_its_architecture() {
        let unknown = cpu("x86_64", "CentaurHauls", 7, 0x3b);
        let row = choose(rows().unwrap(), &unknown, None).unwrap();
        assert!(row.is_generic());
        assert_eq!(row.name, "generic-x86-64");
        assert!(row.constant("rdtsc_cycles").is_none());
        let untold = Cpu { architecture: "x86_64".to_owned(), ..Cpu::default() };
        assert_eq!(chosen(&untold), "generic-x86-64");
    }

    #[test]
    fn an_architecture_without_a_row_is_an_error_that_names_it() {
        let riscv = cpu("riscv64", "SiFive", 0, 0);
        let error = choose(rows().unwrap(), &riscv, None).unwrap_err().to_string();
        assert!(error.contains("riscv64"), "{error}");
    }

    #[test]
    fn an_imposed_row_wins_and_an_unknown_one_is_refused_with_the_names() {
        let genoa = cpu("x86_64", "AuthenticAMD", 25, 17);
        let rows = rows().unwrap();
        assert_eq!(choose(rows, &genoa, Some("skylake")).unwrap().name, "skylake");
        let error = choose(rows, &genoa, Some("zen9")).unwrap_err().to_string();
        assert!(error.contains("zen9") && error.contains("zen4, zen5"), "{error}");
    }

    #[test]
    fn a_constant_tells_the_work_and_the_place_in_it() {
        let genoa = cpu("x86_64", "AuthenticAMD", 25, 17);
        let row = choose(rows().unwrap(), &genoa, None).unwrap();
        let rdtsc = row.constant("rdtsc_cycles").unwrap();
        assert_eq!(rdtsc.value, 35.0);
        assert!(rdtsc.source.contains("uops.info"), "{}", rdtsc.source);
        assert!(rdtsc.source.contains("RDTSC, Zen 4"), "{}", rdtsc.source);
        assert_eq!(row.origin(), Origin::Table { row: "zen4".to_owned() });
    }

    fn table(rows: &str) -> Result<Vec<Row>, TableError> {
        parse(&format!("[sources]\nbook = \"A book\"\n{rows}"))
    }

    fn row(identity: &str, constants: &str) -> String {
        format!(
            "[[row]]\nname = \"a\"\ntitle = \"A\"\narchitecture = \"x86_64\"\n{identity}\n\
             [row.constants]\n{constants}\n"
        )
    }

    const GOOD: &str = "l1_cycles = { value = 4.0, source = \"book\", at = \"page 1\" }";
    const MODELS: &str = "family = 6\nmodels = [[1, 2]]";

    #[test]
    fn a_table_with_a_fault_is_refused_with_the_row_and_the_reason() {
        assert!(table(&row(MODELS, GOOD)).is_ok());
        let fault = |identity: &str, constants: &str| {
            table(&row(identity, constants)).unwrap_err().to_string()
        };
        let constant = |text: &str| fault(MODELS, &GOOD.replace("value = 4.0", text));
        assert!(constant("value = 4.0, low = 5.0").contains("low <= value"));
        assert!(constant("value = 4.0, high = 3.0").contains("a.l1_cycles: expected 0"));
        assert!(constant("value = -1.0").contains("low <= value"));
        assert!(fault(MODELS, &GOOD.replace("book", "hearsay")).contains("hearsay"));
        assert!(fault(MODELS, &GOOD.replace("page 1", " ")).contains("place"));
        assert!(fault(MODELS, &GOOD.replace("l1", "l9")).contains("unknown"));
        assert!(fault("family = 6\nmodels = [[2, 1]]", GOOD).contains("backwards"));
        assert!(fault("generic = true\nfamily = 6", GOOD).contains("generic"));
        assert!(fault("family = 6", GOOD).contains("models"));
    }

    #[test]
    fn two_rows_cannot_share_a_name_or_a_cpu() {
        let again = row(MODELS, GOOD);
        let error = table(&format!("{again}{again}")).unwrap_err().to_string();
        assert!(error.contains("name is taken"), "{error}");
        let other = again.replace("\"a\"", "\"b\"").replace("[[1, 2]]", "[[2, 9]]");
        let error = table(&format!("{again}{other}")).unwrap_err().to_string();
        assert!(error.contains("such a CPU"), "{error}");
    }
}
