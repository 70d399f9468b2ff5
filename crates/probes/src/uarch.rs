//! Published constants of CPU micro-architectures from `data/uarch.toml`, each with its source.
//!
//! They are the hardware terms of predictions. A metric whose constant is not published has no
//! model. No constant is fitted to measurements.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use fathom_record::host::Cpu;
use fathom_record::{Host, NoModel, Origin};
use serde::Deserialize;

/// Overrides the row of the CPU by name: with a wrong row, predictions must fail.
pub const OVERRIDE: &str = "FATHOM_UARCH";

const TABLE: &str = include_str!("../../../data/uarch.toml");

/// The valid names of constants.
const NAMES: &[&str] = &[
    "add_latency_cycles",
    "call_ret_cycles",
    "l1_cycles",
    "l1_read_bytes_per_cycle",
    "l2_cycles",
    "l2_read_bytes_per_cycle",
    "l2_tlb_entries",
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UarchTable {
    sources: BTreeMap<String, String>,
    row: Vec<UarchRow>,
}

/// The constants of one micro-architecture, and the CPUs that they apply to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UarchRow {
    /// The value of [`OVERRIDE`].
    name: String,
    title: String,
    architecture: String,
    /// Absent on aarch64, where `family` is the implementer and `models` are part numbers.
    vendor: Option<String>,
    family: Option<u32>,
    /// First and last of each range.
    #[serde(default)]
    models: Vec<[u32; 2]>,
    /// For every CPU of the architecture without a row of its own.
    #[serde(default)]
    generic: bool,
    constants: BTreeMap<String, Constant>,
}

/// A value in core clock cycles, or per cycle where its name ends in `_per_cycle`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    pub value: f64,
    /// Lower limit, where the source gives a range.
    pub low: Option<f64>,
    /// Upper limit, where the source gives a range.
    pub high: Option<f64>,
    #[serde(default)]
    pub how: How,
    /// The publication and the place in it; in the file a key of `sources`.
    pub source: String,
    at: String,
}

/// How a constant follows from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    #[default]
    Published,
    /// Calculated from what the source states.
    Derived,
    /// From published parts whose overlap is not published: for bounds only.
    Inferred,
}

/// Why no row applies to a CPU.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UarchError {
    #[error("no row for the architecture `{0}`")]
    UnknownArchitecture(String),
    /// The table is invalid, or the overriding row does not exist.
    #[error("{0}")]
    Table(String),
}

impl From<UarchError> for NoModel {
    fn from(error: UarchError) -> Self {
        match error {
            UarchError::UnknownArchitecture(architecture) => {
                Self::UnknownArchitecture { architecture }
            }
            UarchError::Table(reason) => Self::UnusableTable { reason },
        }
    }
}

/// The row of the host's CPU, else the generic row of its architecture; [`OVERRIDE`] names another.
pub fn row_for(host: &Host) -> Result<&'static UarchRow, UarchError> {
    let name = std::env::var(OVERRIDE).ok().filter(|name| !name.is_empty());
    choose(rows()?, &host.cpu, name.as_deref())
}

fn rows() -> Result<&'static [UarchRow], UarchError> {
    static ROWS: OnceLock<Result<Vec<UarchRow>, UarchError>> = OnceLock::new();
    ROWS.get_or_init(|| parse(TABLE)).as_deref().map_err(Clone::clone)
}

fn choose<'r>(
    rows: &'r [UarchRow],
    cpu: &Cpu,
    name: Option<&str>,
) -> Result<&'r UarchRow, UarchError> {
    if let Some(name) = name {
        return rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            let names = names.join(", ");
            UarchError::Table(format!("{OVERRIDE}={name}: no such row; expected one of {names}"))
        });
    }
    let of_architecture = || rows.iter().filter(|row| row.architecture == cpu.architecture);
    of_architecture()
        .find(|row| row.applies_to(cpu))
        .or_else(|| of_architecture().find(|row| row.generic))
        .ok_or_else(|| UarchError::UnknownArchitecture(cpu.architecture.clone()))
}

impl UarchRow {
    /// A constant that is good for values: published or derived.
    ///
    /// # Errors
    /// The constant is not published for this micro-architecture.
    pub fn sourced(&self, name: &str) -> Result<&Constant, NoModel> {
        let missing = || NoModel::NotPublished { figure: name.to_owned(), cpu: self.title.clone() };
        self.for_bound(name).ok().filter(|it| it.how != How::Inferred).ok_or_else(missing)
    }

    /// A constant for a bound, which may be inferred.
    ///
    /// # Errors
    /// There is none for this micro-architecture.
    pub fn for_bound(&self, name: &str) -> Result<&Constant, NoModel> {
        let missing = || NoModel::NotPublished { figure: name.to_owned(), cpu: self.title.clone() };
        self.constants.get(name).ok_or_else(missing)
    }

    /// The origin of a prediction's input.
    pub fn origin(&self) -> Origin {
        Origin::Table { row: self.name.clone() }
    }

    fn applies_to(&self, cpu: &Cpu) -> bool {
        let model =
            |model| self.models.iter().any(|&[first, last]| (first..=last).contains(&model));
        !self.generic
            && (self.vendor.is_none() || self.vendor == cpu.vendor)
            && self.family == cpu.family
            && cpu.model_number.is_some_and(model)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meets = |a: &[u32; 2], b: &[u32; 2]| a[0] <= b[1] && b[0] <= a[1];
        let shares_model = || self.models.iter().any(|a| other.models.iter().any(|b| meets(a, b)));
        self.architecture == other.architecture
            && self.vendor == other.vendor
            && self.family == other.family
            && self.generic == other.generic
            && (self.generic || shares_model())
    }

    /// Validates the row and replaces the key of each source by its text.
    fn resolve(&mut self, sources: &BTreeMap<String, String>) -> Result<(), UarchError> {
        let is_generic = self.generic && self.family.is_none() && self.vendor.is_none();
        let is_specific = !self.generic && self.family.is_some();
        if self.models.is_empty() != is_generic || !(is_generic || is_specific) {
            let expected = "either a family with models, or `generic = true` alone";
            return Err(invalid(&self.name, expected));
        }
        if let Some([first, last]) = self.models.iter().find(|[first, last]| first > last) {
            let problem = format!("models {first:#x} to {last:#x} run backwards");
            return Err(invalid(&self.name, &problem));
        }
        for (name, constant) in &mut self.constants {
            let place = format!("{}.{name}", self.name);
            if !NAMES.contains(&name.as_str()) {
                let known = NAMES.join(", ");
                return Err(invalid(&place, &format!("unknown; expected one of {known}")));
            }
            let Constant { value, low, high, source, at, how } = constant;
            let (low, high) = (low.unwrap_or(*value), high.unwrap_or(*value));
            if !(value.is_finite() && low >= 0.0 && low <= *value && *value <= high) {
                return Err(invalid(&place, "expected 0 <= low <= value <= high"));
            }
            let title = sources.get(source.as_str()).filter(|title| !title.trim().is_empty());
            let title = title.ok_or_else(|| invalid(&place, &format!("no source `{source}`")))?;
            if at.trim().is_empty() {
                return Err(invalid(&place, "`at` is empty: name the place in the source"));
            }
            let how = match how {
                How::Published => "",
                How::Derived => " (derived)",
                How::Inferred => " (inferred)",
            };
            *source = format!("{title}: {at}{how}");
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<Vec<UarchRow>, UarchError> {
    let table: UarchTable =
        toml::from_str(text).map_err(|error| invalid("TOML", &error.to_string()))?;
    let mut rows: Vec<UarchRow> = Vec::new();
    for mut row in table.row {
        row.resolve(&table.sources)?;
        if rows.iter().any(|other| other.name == row.name) {
            return Err(invalid(&row.name, "duplicate name"));
        }
        if let Some(other) = rows.iter().find(|other| other.overlaps(&row)) {
            return Err(invalid(&row.name, &format!("row `{}` has the same CPU", other.name)));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn invalid(place: &str, problem: &str) -> UarchError {
    UarchError::Table(format!("data/uarch.toml: {place}: {problem}"))
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
    fn shipped_table_is_valid() {
        let rows = rows().unwrap();
        assert!(rows.len() > 10);
        assert_eq!(rows.iter().filter(|row| row.generic).count(), 2);
        for row in rows {
            for name in ["taken_branch_cycles", "add_latency_cycles"] {
                assert!(row.sourced(name).is_ok(), "{} lacks {name}", row.name);
            }
        }
    }

    #[test]
    fn each_cpu_gets_the_row_of_its_core() {
        for (vendor, family, model, row) in [
            ("AuthenticAMD", 0x19, 0x11, "zen4"), // EPYC 9004
            ("AuthenticAMD", 0x19, 0x61, "zen4"), // Ryzen 7000
            ("AuthenticAMD", 0x19, 0xa0, "zen4"), // EPYC 97x4
            ("AuthenticAMD", 0x19, 0x01, "zen3"), // EPYC 7003
            ("AuthenticAMD", 0x19, 0x21, "zen3"), // Ryzen 5000
            ("AuthenticAMD", 0x17, 0x31, "zen2"), // EPYC 7002
            ("AuthenticAMD", 0x1a, 0x02, "zen5"), // EPYC 9005
            ("GenuineIntel", 6, 0x55, "skylake-server"),
            ("GenuineIntel", 6, 0x5e, "skylake"),
            ("GenuineIntel", 6, 0x6a, "ice-lake"),
            ("GenuineIntel", 6, 0x8f, "golden-cove"),
            ("GenuineIntel", 6, 0x3d, "broadwell"),
            ("CentaurHauls", 7, 0x3b, "generic-x86-64"),
        ] {
            assert_eq!(chosen(&cpu("x86_64", vendor, family, model)), row);
        }
        let unidentified = Cpu { architecture: "x86_64".to_owned(), ..Cpu::default() };
        assert_eq!(chosen(&unidentified), "generic-x86-64");
        assert_eq!(chosen(&cpu("aarch64", "ARM", 0x41, 0xd0c)), "neoverse-n1");
        assert_eq!(chosen(&cpu("aarch64", "ARM", 0x41, 0xd40)), "neoverse-v1");
        assert_eq!(chosen(&cpu("aarch64", "APM", 0x50, 0x000)), "generic-aarch64");
        let error = choose(rows().unwrap(), &cpu("riscv64", "SiFive", 0, 0), None).unwrap_err();
        assert!(error.to_string().contains("riscv64"), "{error}");
    }

    #[test]
    fn override_selects_a_row_by_name() {
        let genoa = cpu("x86_64", "AuthenticAMD", 25, 17);
        let rows = rows().unwrap();
        assert_eq!(choose(rows, &genoa, Some("skylake")).unwrap().name, "skylake");
        let error = choose(rows, &genoa, Some("zen9")).unwrap_err().to_string();
        assert!(error.contains("zen9") && error.contains("zen4, zen5"), "{error}");
    }

    #[test]
    fn constant_names_its_source_and_the_place_in_it() {
        let genoa = cpu("x86_64", "AuthenticAMD", 25, 17);
        let row = choose(rows().unwrap(), &genoa, None).unwrap();
        let rdtsc = row.sourced("rdtsc_cycles").unwrap();
        assert_eq!(rdtsc.value, 35.0);
        assert!(rdtsc.source.contains("uops.info"), "{}", rdtsc.source);
        assert!(rdtsc.source.contains("RDTSC, Zen 4"), "{}", rdtsc.source);
        assert_eq!(row.origin(), Origin::Table { row: "zen4".to_owned() });
    }

    #[test]
    fn inferred_constant_is_for_bounds_only() {
        let inferred = GOOD.replace("value = 4.0,", "value = 4.0, how = \"inferred\",");
        let rows = table(&row(MODELS, &inferred)).unwrap();
        assert!(rows[0].sourced("l1_cycles").is_err());
        let constant = rows[0].for_bound("l1_cycles").unwrap();
        assert!(constant.source.ends_with("(inferred)"), "{}", constant.source);
        let derived = GOOD.replace("value = 4.0,", "value = 4.0, how = \"derived\",");
        let rows = table(&row(MODELS, &derived)).unwrap();
        assert!(rows[0].sourced("l1_cycles").unwrap().source.ends_with("(derived)"));
    }

    fn table(rows: &str) -> Result<Vec<UarchRow>, UarchError> {
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
    fn invalid_row_is_rejected_with_its_reason() {
        assert!(table(&row(MODELS, GOOD)).is_ok());
        for (from, to, reason) in [
            ("value = 4.0", "value = 4.0, low = 5.0", "low <= value"),
            ("value = 4.0", "value = 4.0, high = 3.0", "a.l1_cycles: expected 0"),
            ("value = 4.0", "value = -1.0", "low <= value"),
            ("book", "hearsay", "hearsay"),
            ("page 1", " ", "`at` is empty"),
            ("l1", "l9", "unknown"),
        ] {
            let error = table(&row(MODELS, &GOOD.replace(from, to))).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        for (identity, reason) in [
            ("family = 6\nmodels = [[2, 1]]", "backwards"),
            ("generic = true\nfamily = 6", "generic"),
            ("generic = true\nmodels = [[1, 2]]", "generic"),
            ("models = [[1, 2]]", "family"),
            ("family = 6", "models"),
        ] {
            let error = table(&row(identity, GOOD)).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        let first = row(MODELS, GOOD);
        let same_cpu = first.replace("\"a\"", "\"b\"").replace("[[1, 2]]", "[[2, 9]]");
        for (second, reason) in [(&first, "duplicate name"), (&same_cpu, "same CPU")] {
            let error = table(&format!("{first}{second}")).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
