//! What a file has, whatever the tool.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

use fathom_record::plausible::MAGNITUDE_MAX;
use fathom_record::{Better, Fact, FactValue, Params, Unit};
use jiff::Timestamp;

use crate::name;

/// A file of one tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Of the tool.
    pub(crate) version: Option<String>,
    /// The host that measured.
    pub(crate) host: Option<String>,
    pub(crate) cpu: Option<String>,
    pub(crate) cpus: Option<u32>,
    pub(crate) architecture: Option<String>,
    pub(crate) date: Option<ParsedDate>,
    pub(crate) notes: Vec<String>,
    pub(crate) series: Vec<ParsedSeries>,
    /// Where the series of a case is.
    pub(crate) cases: HashMap<(String, Params), usize>,
    /// About what all series take, and the records made of them.
    pub(crate) bytes: usize,
    /// CRC-32 of the text.
    pub(crate) checksum: u32,
}

/// When it was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedDate {
    /// As the file has it.
    pub(crate) text: String,
    pub(crate) moment: Timestamp,
}

/// The values of one quantity of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedSeries {
    /// As the tool names it.
    pub(crate) title: String,
    /// After the name of the tool in the id of the metric.
    pub(crate) id: String,
    pub(crate) params: Params,
    pub(crate) kind: ParsedKind,
    /// Values of each process that has some, in the order measured.
    pub(crate) processes: BTreeMap<usize, Vec<f64>>,
    /// Operations of one value.
    pub(crate) batch: u64,
    /// Why there is no value.
    pub(crate) failure: Option<String>,
    /// What the file says of its runs, which were accepted.
    pub(crate) remark: Option<String>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) notes: Vec<String>,
}

impl ParsedSeries {
    pub(crate) fn new(title: &str, id: &str, params: &Params, kind: ParsedKind) -> Self {
        Self {
            title: title.to_owned(),
            id: id.to_owned(),
            params: params.clone(),
            kind,
            processes: BTreeMap::new(),
            batch: 1,
            failure: None,
            remark: None,
            facts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Another quantity of the same benchmark, named as its tool does.
    pub(crate) fn aspect(
        title: &str,
        id: &str,
        aspect: &str,
        params: &Params,
        kind: ParsedKind,
    ) -> Self {
        let id = format!("{id}.{}", name::safe(aspect));
        Self::new(&name::title(&format!("{title}: {aspect}")), &id, params, kind)
    }

    /// With a value of one process, in the unit of the tool.
    #[must_use]
    pub(crate) fn with(mut self, process: usize, value: f64) -> Self {
        self.push(process, value);
        self
    }

    /// Adds a value of a process, in the unit of the tool.
    pub(crate) fn push(&mut self, process: usize, value: f64) {
        self.processes.entry(process).or_default().push(self.kind.in_unit(value));
    }

    fn text_bytes(&self) -> usize {
        let params = self.params.0.iter();
        let params = params.map(|(name, value)| name.len() + value.to_string().len() + 64);
        let facts = self.facts.iter().map(|fact| match &fact.value {
            FactValue::Text { text } => text.len(),
            _ => 0,
        });
        self.title.len() + self.id.len() + params.chain(facts).sum::<usize>()
    }
}

impl Parsed {
    /// Adds a series, or its values to those of the same benchmark before it.
    ///
    /// # Errors
    /// If another benchmark has its id, it has another unit, or all take too much memory.
    pub(crate) fn add(&mut self, mut series: ParsedSeries) -> Result<(), String> {
        let case = (series.id.clone(), series.params.clone());
        let at = *self.cases.entry(case).or_insert(self.series.len());
        let (processes, mut bytes) = (std::mem::take(&mut series.processes), 0);
        if let Some(known) = self.series.get_mut(at) {
            if known.title != series.title {
                let (one, other, id) = (&known.title, &series.title, &series.id);
                return Err(format!("`{one}` and `{other}` have one id, {id}: rename one of them"));
            }
            if known.kind.unit != series.kind.unit {
                return Err(format!("`{}` has two units", series.title));
            }
            known.failure = known.failure.take().or(series.failure);
            known.remark = known.remark.take().or(series.remark);
        } else {
            bytes += SERIES_BYTES + 4 * series.text_bytes();
            self.series.push(series);
        }
        for (process, values) in processes {
            bytes += VALUE_BYTES * values.len();
            let place = self.series[at].processes.entry(process);
            bytes += if let Entry::Vacant(_) = place { PROCESS_BYTES } else { 0 };
            place.or_default().extend(values);
        }
        self.bytes += bytes;
        if self.bytes > BYTES_MAX {
            let (count, mib) = (self.series.len(), BYTES_MAX >> 20);
            return Err(format!("{count} results take more than {mib} MiB: import it in parts"));
        }
        Ok(())
    }

    /// Adds a series of a benchmark that a file has once.
    ///
    /// # Errors
    /// If the file has it before.
    pub(crate) fn add_new(&mut self, series: ParsedSeries, remedy: &str) -> Result<(), String> {
        let known = self.cases.get(&(series.id.clone(), series.params.clone()));
        if known.is_some_and(|at| self.series[*at].title == series.title) {
            return Err(format!("`{}` is there twice: {remedy}", series.title));
        }
        self.add(series)
    }
}

/// The memory of all results of a file, at most.
const BYTES_MAX: usize = 64 << 20;
/// Of a series with its record, of a sample, and of a value in all.
const SERIES_BYTES: usize = 4 << 10;
const PROCESS_BYTES: usize = 4 << 10;
const VALUE_BYTES: usize = 64;

/// What a number of a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedKind {
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// The tool's unit in ours, as a power of ten.
    pub(crate) exponent: i32,
}

impl ParsedKind {
    /// A time in units of 10ⁿ ns.
    pub(crate) const fn time(exponent: i32) -> Self {
        Self { unit: Unit::Nanoseconds, better: Better::Lower, exponent }
    }

    pub(crate) const SECONDS: Self = Self::time(9);

    /// An amount, of which less is better.
    pub(crate) const fn amount(unit: Unit) -> Self {
        Self { unit, better: Better::Lower, exponent: 0 }
    }

    pub(crate) const fn rate(unit: Unit) -> Self {
        Self { unit, better: Better::Higher, exponent: 0 }
    }

    /// A number of which neither direction is known to be better.
    pub(crate) const NUMBER: Self =
        Self { unit: Unit::Ratio, better: Better::Neither, exponent: 0 };

    /// The value, if it can be a result: a time, an amount and a rate are not below 0.
    pub(crate) fn checked(self, value: f64) -> Result<f64, &'static str> {
        match value {
            _ if !value.is_finite() || value.abs() > MAGNITUDE_MAX => Err("out of range"),
            _ if value < 0.0 && self.better != Better::Neither => Err("below 0"),
            _ => Ok(value),
        }
    }

    fn in_unit(self, value: f64) -> f64 {
        shifted(value, self.exponent)
    }
}

/// The value × 10ⁿ, correctly rounded from its shortest decimal form, as tools write it: 0.0041 s
/// is 4100000 ns, where a product would be next to it.
fn shifted(value: f64, exponent: i32) -> f64 {
    let text = format!("{value:e}");
    let parts = text.split_once('e').and_then(|(digits, power)| {
        format!("{digits}e{}", power.parse::<i32>().ok()? + exponent).parse().ok()
    });
    parts.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_converted_exactly() {
        for (seconds, ns) in [(0.1234567, 123_456_700.0), (1.1, 1_100_000_000.0), (3e-9, 3.0)] {
            assert_eq!(shifted(seconds, 9), ns);
        }
        // A product is next to it.
        assert!(0.0041_f64 * 1e9 != 4_100_000.0 && shifted(0.0041, 9) == 4_100_000.0);
        assert_eq!([0.0, 1e308].map(|it| shifted(it, 9)), [0.0, f64::INFINITY]);
    }

    #[test]
    fn one_id_is_of_one_benchmark() {
        let series =
            |title: &str| ParsedSeries::new(title, "a_b", &Params::none(), ParsedKind::time(0));
        let mut parsed = Parsed::default();
        parsed.add(series("a b").with(0, 1.0)).expect("new");
        parsed.add(series("a b").with(0, 2.0).with(1, 3.0)).expect("the same");
        assert_eq!(parsed.series[0].processes, [(0, vec![1.0, 2.0]), (1, vec![3.0])].into());
        assert!(
            parsed.add(series("a/b")).unwrap_err().contains("`a b` and `a/b` have one id, a_b")
        );
        let other = ParsedSeries { kind: ParsedKind::NUMBER, ..series("a b") };
        assert!(parsed.add(other).unwrap_err().contains("two units"));
        assert!(parsed.add_new(series("a b"), "name it").unwrap_err().contains("there twice"));
    }
}
