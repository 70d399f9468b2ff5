//! What a file has, whatever the tool.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use fathom_record::plausible::MAGNITUDE_MAX;
use fathom_record::{Better, Fact, FactValue, Params, Unit};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

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
    /// Where the series of a case is, by its key.
    pub(crate) places: HashMap<String, usize>,
    /// How often a benchmark was measured.
    pub(crate) blocks: HashMap<String, usize>,
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

impl ParsedDate {
    /// A date, with a zone or without one: then it is the local time of the host, which is kept as
    /// it is, and ordered as UTC.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let local = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
        let moment = text.parse().ok().or_else(|| Some(local()?.timestamp()))?;
        Some(Self { text: name::title(text), moment })
    }
}

/// A benchmark with its settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedCase {
    /// The whole name, with all that tells it from others: what it is known by.
    pub(crate) name: String,
    /// As the tool names it.
    pub(crate) title: String,
    /// After the name of the tool in the id of the metric; others may have it, too.
    pub(crate) id: String,
    pub(crate) params: Params,
    /// What the file says of the measurement, such as `commit`: benchstat's configuration.
    pub(crate) configuration: BTreeMap<String, String>,
}

impl ParsedCase {
    pub(crate) fn new(name: &str, id: String, params: Params) -> Self {
        let title = name::title(name);
        let configuration = BTreeMap::new();
        // What is cut of a long one is in its checksum.
        let name = match name::is_long(name) {
            true => format!("{title}-{:08x}", crc32fast::hash(name.as_bytes())),
            false => title.clone(),
        };
        Self { name, title, id, params, configuration }
    }

    /// With a parameter.
    #[must_use]
    pub(crate) fn and(&self, name: &str, value: &str) -> Self {
        Self { params: name::with(self.params.clone(), name, value), ..self.clone() }
    }

    pub(crate) fn series(&self, kind: ParsedKind) -> ParsedSeries {
        ParsedSeries {
            case: self.clone(),
            aspect: None,
            is_shared: false,
            kind,
            processes: BTreeMap::new(),
            batch: 1,
            failure: None,
            missing: None,
            left_out: None,
            remark: None,
            doubt: None,
            facts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Another quantity of the benchmark, named as its tool does.
    pub(crate) fn aspect(&self, aspect: &str, kind: ParsedKind) -> ParsedSeries {
        ParsedSeries { aspect: Some(name::title(aspect)), ..self.series(kind) }
    }

    fn key(&self) -> String {
        format!("{}\0{}\0{:?}", self.name, self.params, self.configuration)
    }
}

/// The values of one quantity of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParsedSeries {
    pub(crate) case: ParsedCase,
    pub(crate) aspect: Option<String>,
    /// Whether another quantity of the benchmark has the same id but for a checksum.
    pub(crate) is_shared: bool,
    pub(crate) kind: ParsedKind,
    /// Values of each process that has some, in the order measured.
    pub(crate) processes: BTreeMap<usize, Vec<f64>>,
    /// Operations of one value.
    pub(crate) batch: u64,
    /// The error for which there is no value.
    pub(crate) failure: Option<String>,
    /// Why there is no value without an error.
    pub(crate) missing: Option<String>,
    /// How many values can be no result, and why the first cannot.
    pub(crate) left_out: Option<(usize, String)>,
    /// What the file says of its runs, which were accepted.
    pub(crate) remark: Option<String>,
    /// Why its number is not simply valid.
    pub(crate) doubt: Option<String>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) notes: Vec<String>,
}

impl ParsedSeries {
    pub(crate) fn title(&self) -> String {
        match &self.aspect {
            Some(aspect) => name::title(&format!("{}: {aspect}", self.case.title)),
            None => self.case.title.clone(),
        }
    }

    /// After the name of the tool in the id of the metric.
    pub(crate) fn id(&self) -> String {
        let ParsedCase { id, .. } = &self.case;
        match &self.aspect {
            Some(aspect) if self.is_shared => {
                format!("{id}.{}-{:08x}", name::safe(aspect), crc32fast::hash(aspect.as_bytes()))
            }
            Some(aspect) => format!("{id}.{}", name::safe(aspect)),
            None => id.clone(),
        }
    }

    /// With a value of one process, in the unit of the tool.
    #[must_use]
    pub(crate) fn with(mut self, process: usize, value: f64) -> Self {
        self.push(process, value);
        self
    }

    /// Adds a value of a process, in the unit of the tool. One that can be no result is left out.
    pub(crate) fn push(&mut self, process: usize, value: f64) {
        match self.kind.checked(value) {
            Ok(value) => {
                self.processes.entry(process).or_default().push(self.kind.in_unit(value));
            }
            Err(why) => {
                let text = match value.is_nan() {
                    // NaN, null or a word.
                    true => "no number in the file".to_owned(),
                    false if value.abs() > MAGNITUDE_MAX => format!("{value:e} in the file: {why}"),
                    false => format!("{value} in the file: {why}"),
                };
                let first = || (0, text);
                self.left_out.get_or_insert_with(first).0 += 1;
            }
        }
    }

    fn text_bytes(&self) -> usize {
        let ParsedCase { name, title, id, params, configuration } = &self.case;
        let params = params.0.iter();
        let params = params.map(|(name, value)| name.len() + value.to_string().len() + 64);
        let facts = self.facts.iter().map(|fact| match &fact.value {
            FactValue::Text { text } => text.len(),
            _ => 0,
        });
        let configuration = configuration.iter().map(|(key, value)| key.len() + value.len());
        let texts = params.chain(facts).chain(configuration).sum::<usize>();
        name.len() + title.len() + id.len() + texts
    }
}

impl Parsed {
    /// How often a benchmark was measured before: each time is a process of its own.
    pub(crate) fn block(&mut self, case: &ParsedCase) -> usize {
        let count = self.blocks.entry(case.key()).or_default();
        *count += 1;
        *count - 1
    }

    /// Adds a series, or its values to those of the same benchmark before it.
    ///
    /// # Errors
    /// If it has another unit, or all take too much memory.
    pub(crate) fn add(&mut self, mut series: ParsedSeries) -> Result<(), String> {
        let key = format!("{}\0{}", series.case.key(), series.aspect.as_deref().unwrap_or("\0"));
        let at = *self.places.entry(key).or_insert(self.series.len());
        let (processes, mut bytes) = (std::mem::take(&mut series.processes), 0);
        if let Some(known) = self.series.get_mut(at) {
            if known.kind.unit != series.kind.unit {
                return Err(format!("`{}` has two units", series.title()));
            }
            known.failure = known.failure.take().or(series.failure);
            known.missing = known.missing.take().or(series.missing);
            known.remark = known.remark.take().or(series.remark);
            known.doubt = known.doubt.take().or(series.doubt);
            if let Some((count, why)) = series.left_out {
                known.left_out.get_or_insert((0, why)).0 += count;
            }
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

    /// Gives each case an id of its own, by its whole name, or by a checksum of it where that has
    /// only signs that no id has: `a+b` and `a*b`. Names that nobody shares are left as they are.
    pub(crate) fn tell_apart(&mut self) {
        self.configure();
        // The second time for an id that another case has as its whole name.
        for _ in 0..2 {
            let mut names: HashMap<(String, Params), BTreeSet<String>> = HashMap::new();
            for one in &self.series {
                let names = names.entry((one.id(), one.case.params.clone())).or_default();
                names.insert(one.case.name.clone());
            }
            let shared = names.into_values().filter(|names| names.len() > 1).flatten();
            let shared: BTreeSet<String> = shared.collect();
            let mut wholes: HashMap<String, usize> = HashMap::new();
            shared.iter().for_each(|name| *wholes.entry(name::safe(name)).or_default() += 1);
            for one in &mut self.series {
                let ParsedCase { name, title, id, .. } = &mut one.case;
                if !shared.contains(name) {
                    continue;
                }
                let whole = name::safe(name);
                *id = match wholes[&whole] == 1 && *id != whole {
                    true => whole,
                    false => format!("{id}-{:08x}", crc32fast::hash(name.as_bytes())),
                };
                title.clone_from(name);
            }
        }
        self.tell_aspects_apart();
    }

    /// Quantities of one benchmark, such as `hits` and `hits%`, in all its cases.
    fn tell_aspects_apart(&mut self) {
        let mut aspects: HashMap<String, BTreeSet<Option<String>>> = HashMap::new();
        for one in &self.series {
            aspects.entry(one.id()).or_default().insert(one.aspect.clone());
        }
        for one in &mut self.series {
            one.is_shared = aspects.get(&one.id()).is_some_and(|all| all.len() > 1);
        }
    }

    /// What differs of the configurations of a benchmark is a parameter of its cases.
    fn configure(&mut self) {
        let mut of_name: HashMap<String, BTreeSet<BTreeMap<String, String>>> = HashMap::new();
        for ParsedCase { name, configuration, .. } in self.series.iter().map(|one| &one.case) {
            of_name.entry(name.clone()).or_default().insert(configuration.clone());
        }
        let differing: HashMap<String, BTreeSet<String>> =
            of_name.into_iter().map(|(name, all)| (name, differing_keys(&all))).collect();
        for ParsedCase { name, params, configuration, .. } in
            self.series.iter_mut().map(|one| &mut one.case)
        {
            let differing = &differing[name];
            for (key, value) in configuration.iter().filter(|(key, _)| differing.contains(*key)) {
                *params = name::with(std::mem::take(params), key, value);
                *name += &format!(" {key}={value}");
            }
        }
    }
}

/// Keys that not all configurations have with the same value.
fn differing_keys(all: &BTreeSet<BTreeMap<String, String>>) -> BTreeSet<String> {
    let mut values: BTreeMap<&String, (BTreeSet<&String>, usize)> = BTreeMap::new();
    for (key, value) in all.iter().flatten() {
        let (values, count) = values.entry(key).or_default();
        values.insert(value);
        *count += 1;
    }
    let differs = |(values, count): &(BTreeSet<_>, usize)| values.len() > 1 || *count < all.len();
    let found = values.into_iter().filter(|(_, of_key)| differs(of_key));
    found.map(|(key, _)| key.clone()).collect()
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
            _ if !value.is_finite() => Err("no finite number"),
            _ if value.abs() > MAGNITUDE_MAX => Err("out of range"),
            _ if value < 0.0 && self.better != Better::Neither => Err("below 0"),
            _ => Ok(value),
        }
    }

    pub(crate) fn in_unit(self, value: f64) -> f64 {
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

    fn series(name: &str, commit: Option<&str>) -> ParsedSeries {
        let mut case = ParsedCase::new(name, name::safe(name), Params::none());
        case.configuration.extend(commit.map(|it| ("commit".to_owned(), it.to_owned())));
        case.series(ParsedKind::time(0)).with(0, 1.0)
    }

    fn told_apart(all: Vec<ParsedSeries>) -> Vec<String> {
        let mut parsed = Parsed::default();
        all.into_iter().for_each(|one| parsed.add(one).expect("small"));
        parsed.tell_apart();
        parsed.series.iter().map(|one| format!("{}{}", one.id(), one.case.params)).collect()
    }

    #[test]
    fn different_names_never_share_an_id() {
        assert_eq!(told_apart(vec![series("a+b", None)]), ["a_b"], "nobody shares it");
        assert_eq!(
            told_apart(["a+b", "a-b", "a_b"].map(|it| series(it, None)).into()),
            ["a_b-63988518", "a-b", "a_b-28cb39ea"].map(str::to_owned)
        );
        let long =
            |at: usize| ParsedCase::new(&"x".repeat(2_000 + at), String::new(), Params::none());
        assert_ne!(long(0).name, long(1).name, "cut, with a checksum");
        let same = [series("a", Some("1")), series("a", Some("1"))];
        assert_eq!(told_apart(same.into()), ["a"], "one configuration");
        let other = [series("a", Some("1")), series("a", Some("2")), series("a", None)];
        assert_eq!(told_apart(other.into()), ["a{commit=1}", "a{commit=2}", "a"]);
    }

    #[test]
    fn values_of_one_benchmark_are_joined() {
        let mut parsed = Parsed::default();
        parsed.add(series("a b", None)).expect("new");
        parsed.add(series("a b", None).with(1, 3.0).with(1, f64::NAN)).expect("the same");
        let [one] = parsed.series.as_slice() else { panic!("{parsed:?}") };
        assert_eq!(one.processes, [(0, vec![1.0, 1.0]), (1, vec![3.0])].into());
        assert_eq!(one.left_out, Some((1, "no number in the file".to_owned())));
        let case = series("a b", None).case;
        assert!(parsed.add(case.series(ParsedKind::NUMBER)).unwrap_err().contains("two units"));
        assert_eq!([parsed.block(&case), parsed.block(&case)], [0, 1]);
    }
}
