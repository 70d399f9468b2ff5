//! What a file has, whatever the tool.

use fathom_record::{Better, Fact, Params, Unit};
use jiff::Timestamp;

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
    pub(crate) date: Option<Date>,
    pub(crate) notes: Vec<String>,
    pub(crate) series: Vec<Series>,
    /// CRC-32 of the text.
    pub(crate) checksum: u32,
}

/// When it was measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Date {
    /// As the file has it.
    pub(crate) text: String,
    pub(crate) moment: Timestamp,
}

/// The values of one quantity of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// As the tool names it.
    pub(crate) title: String,
    /// After the name of the tool in the id of the metric.
    pub(crate) id: String,
    pub(crate) params: Params,
    pub(crate) kind: Kind,
    /// Values of each process, in the order measured.
    pub(crate) processes: Vec<Vec<f64>>,
    /// Operations of one value.
    pub(crate) batch: u64,
    /// Why there is no value.
    pub(crate) failure: Option<String>,
    /// What the file says of its runs, which were accepted.
    pub(crate) remark: Option<String>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) notes: Vec<String>,
}

impl Series {
    pub(crate) fn new(title: &str, id: &str, params: &Params, kind: Kind) -> Self {
        Self {
            title: title.to_owned(),
            id: id.to_owned(),
            params: params.clone(),
            kind,
            processes: Vec::new(),
            batch: 1,
            failure: None,
            remark: None,
            facts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Another quantity of the same benchmark, named as its tool does.
    pub(crate) fn aspect(title: &str, id: &str, aspect: &str, params: &Params, kind: Kind) -> Self {
        let (title, id) =
            (format!("{title}: {aspect}"), format!("{id}.{}", crate::name::safe(aspect)));
        Self::new(&title, &id, params, kind)
    }

    /// With a value of one process, in the unit of the tool.
    #[must_use]
    pub(crate) fn with(mut self, process: usize, value: f64) -> Self {
        self.push(process, value);
        self
    }

    /// Adds a value of a process, in the unit of the tool.
    pub(crate) fn push(&mut self, process: usize, value: f64) {
        if self.processes.len() <= process {
            self.processes.resize(process + 1, Vec::new());
        }
        self.processes[process].push(self.kind.in_unit(value));
    }

    pub(crate) fn is_case(&self, other: &Self) -> bool {
        self.id == other.id && self.params == other.params
    }
}

impl Parsed {
    /// Adds a series, or its values to those of the same benchmark before it.
    ///
    /// # Errors
    /// If another benchmark has its id, or it has another unit.
    pub(crate) fn add(&mut self, series: Series) -> Result<(), String> {
        let Some(known) = self.series.iter_mut().find(|known| known.is_case(&series)) else {
            self.series.push(series);
            return Ok(());
        };
        if known.title != series.title {
            let (one, other, id) = (&known.title, &series.title, &series.id);
            return Err(format!("`{one}` and `{other}` have one id, {id}: rename one of them"));
        }
        if known.kind.unit != series.kind.unit {
            return Err(format!("`{}` has two units", series.title));
        }
        for (process, values) in series.processes.into_iter().enumerate() {
            if known.processes.len() <= process {
                known.processes.resize(process + 1, Vec::new());
            }
            known.processes[process].extend(values);
        }
        known.failure = known.failure.take().or(series.failure);
        known.remark = known.remark.take().or(series.remark);
        Ok(())
    }

    /// Adds a series of a benchmark that a file has once.
    ///
    /// # Errors
    /// If the file has it before.
    pub(crate) fn add_new(&mut self, series: Series, remedy: &str) -> Result<(), String> {
        if self.series.iter().any(|known| known.is_case(&series) && known.title == series.title) {
            return Err(format!("`{}` is there twice: {remedy}", series.title));
        }
        self.add(series)
    }
}

/// No measurement has a larger number, and the square of one would overflow.
const LARGEST: f64 = 1e100;

/// What a number of a tool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// The tool's unit in ours, as a power of ten.
    pub(crate) exponent: i32,
}

impl Kind {
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
            _ if !value.is_finite() || value.abs() > LARGEST => Err("out of range"),
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
        let series = |title: &str| Series::new(title, "a_b", &Params::none(), Kind::time(0));
        let mut parsed = Parsed::default();
        parsed.add(series("a b").with(0, 1.0)).expect("new");
        parsed.add(series("a b").with(0, 2.0).with(1, 3.0)).expect("the same");
        assert_eq!(parsed.series[0].processes, [vec![1.0, 2.0], vec![3.0]]);
        assert!(
            parsed.add(series("a/b")).unwrap_err().contains("`a b` and `a/b` have one id, a_b")
        );
        let other = Series { kind: Kind::NUMBER, ..series("a b") };
        assert!(parsed.add(other).unwrap_err().contains("two units"));
        assert!(parsed.add_new(series("a b"), "name it").unwrap_err().contains("there twice"));
    }
}
