//! Limits of the user: what each number of a run must be, for acceptance and node health.
//!
//! A limit is kept if the whole interval of a number is within it, not kept if the whole interval
//! is outside, and undecided otherwise: also without an interval or without a number.

use fathom_record::quantity::quantity;
use fathom_record::{Better, Headline, Record, State, Unit};
use serde::Serialize;

/// The range of a number in its base unit; one end at least.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct UserLimit {
    pub low: Option<f64>,
    pub high: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAnswer {
    NotKept,
    Undecided,
    Kept,
}

fathom_record::words!(
    LimitAnswer.words,
    Kept = "kept",
    NotKept = "not kept",
    Undecided = "undecided"
);

/// A case with its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitJudged {
    /// The case, or the name in the file if no case has it.
    pub name: String,
    pub unit: Unit,
    pub limit: UserLimit,
    /// The limit as the file has it.
    pub written: String,
    pub value: Option<f64>,
    pub interval: Option<[f64; 2]>,
    pub answer: LimitAnswer,
    /// Why it is undecided.
    pub why: Option<String>,
}

/// All limits of a file and their answers, those not kept first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitJudgement {
    pub run: String,
    pub host: String,
    pub started: String,
    /// Of all limits: not kept if one is not, else undecided if one is.
    pub answer: LimitAnswer,
    pub rows: Vec<LimitJudged>,
}

impl LimitJudgement {
    #[must_use]
    pub fn new([run, host, started]: [String; 3], mut rows: Vec<LimitJudged>) -> Self {
        rows.sort_by_key(|row| row.answer);
        let answer = rows.first().map_or(LimitAnswer::Undecided, |row| row.answer);
        Self { run, host, started, answer, rows }
    }

    #[must_use]
    pub fn count(&self, answer: LimitAnswer) -> usize {
        self.rows.iter().filter(|row| row.answer == answer).count()
    }
}

/// Half of the last of four digits.
const ROUNDED: f64 = 5e-4;

impl UserLimit {
    /// `..130 ns`, `20 GB/s..`, `0.9..1.1`, `90..130 ns`: the unit of an end without one is that of
    /// the other.
    ///
    /// # Errors
    /// What a limit of this unit looks like.
    pub fn parse(text: &str, unit: Unit) -> Result<Self, String> {
        let example = match unit {
            Unit::Nanoseconds => "90 ns..130 ns, ..2 µs",
            Unit::BytesPerSecond => "20 GB/s.., 10 GiB/s..12 GiB/s",
            Unit::PerSecond => "1000 /s..",
            Unit::Bytes => "30 KiB..34 KiB, ..8 MiB",
            Unit::Hertz => "2.5 GHz..",
            Unit::Ratio => "0.9..1.1, ..2",
        };
        let wrong = |what: &str| format!("{text:?}: {what}, such as {example}");
        let ends = text.split_once("..").filter(|(_, high)| !high.contains(".."));
        let (low, high) = ends.ok_or_else(|| wrong("expected a range with two dots"))?;
        let (low, high) = (low.trim(), high.trim());
        let number_of =
            |text: &str| text.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
        // `90..130 ns`
        let shared = high.trim_start_matches(|c: char| !c.is_alphabetic() && c != 'µ');
        let low = match !low.is_empty() && number_of(low) && !number_of(high) {
            true => format!("{low} {shared}"),
            false => low.to_owned(),
        };
        let end = |text: &str| match text {
            "" => Ok(None),
            text => match parsed(text, unit) {
                Some(value) => Ok(Some(value)),
                None => Err(wrong(&format!("{text:?} is not {}", kind(unit)))),
            },
        };
        let limit = Self { low: end(&low)?, high: end(high)? };
        match limit {
            Self { low: None, high: None } => Err(wrong("has no end")),
            Self { low: Some(low), high: Some(high) } if low > high => {
                Err(format!("{text:?}: the low end is above the high end"))
            }
            Self { high: Some(high), .. } if high < 0.0 => {
                Err(format!("{text:?}: no number is below 0"))
            }
            limit => Ok(limit),
        }
    }

    /// As [`Limit::parse`] reads it.
    #[must_use]
    pub fn text(&self, unit: Unit) -> String {
        let end = |value: Option<f64>| value.map_or_else(String::new, |it| quantity(it, unit));
        format!("{}..{}", end(self.low), end(self.high))
    }

    /// The limit that a good machine keeps: its interval, less `margin` on the worse side, and on
    /// both where neither is better.
    #[must_use]
    pub fn around(record: &Record, margin: f64) -> Option<Self> {
        let [from, to] = Headline::from(record).interval?;
        let is_valid = record.verdict.state == State::Valid;
        // Outwards by what the text of four digits may round.
        let margin = margin + ROUNDED;
        let (low, high) = (Some(from - margin * from.abs()), Some(to + margin * to.abs()));
        is_valid.then_some(match record.better {
            Better::Lower => Self { low: None, high },
            Better::Higher => Self { low, high: None },
            Better::Neither => Self { low, high },
        })
    }

    /// The answer for a record.
    #[must_use]
    pub fn judge(self, record: &Record) -> LimitJudged {
        let headline = Headline::from(record);
        let interval = headline.interval.filter(|_| headline.value.is_some());
        let (low, high) =
            (self.low.unwrap_or(f64::NEG_INFINITY), self.high.unwrap_or(f64::INFINITY));
        let (answer, why) = match interval {
            Some([from, to]) if low <= from && to <= high => (LimitAnswer::Kept, None),
            Some([from, to]) if to < low || from > high => (LimitAnswer::NotKept, None),
            Some(_) => {
                (LimitAnswer::Undecided, Some("the limit is within the interval".to_owned()))
            }
            None if let Some(bound) = headline.bound => match (bound <= high, bound < low) {
                (_, true) => (LimitAnswer::NotKept, None),
                (true, _) if self.low.is_none() => (LimitAnswer::Kept, None),
                _ => {
                    let bound = fathom_record::quantity::at_most(bound, record.unit);
                    (LimitAnswer::Undecided, Some(format!("only an upper bound is known, {bound}")))
                }
            },
            None if headline.value.is_some() => (
                LimitAnswer::Undecided,
                Some("without an interval: measure it with more processes or passes".to_owned()),
            ),
            None => {
                let reason = record.verdict.reasons.first().map(|reason| reason.text.to_string());
                let state = record.verdict.state.word();
                let why = reason.filter(|text| !text.is_empty());
                (
                    LimitAnswer::Undecided,
                    Some(why.map_or(state.to_owned(), |it| format!("{state}: {it}"))),
                )
            }
        };
        LimitJudged {
            name: record.name(),
            unit: record.unit,
            limit: self,
            written: self.text(record.unit),
            value: headline.value,
            interval,
            answer,
            why,
        }
    }

    /// The answer where no case has the name.
    #[must_use]
    pub fn not_measured(self, name: &str, unit: Unit) -> LimitJudged {
        LimitJudged {
            name: name.to_owned(),
            unit,
            limit: self,
            written: self.text(unit),
            value: None,
            interval: None,
            answer: LimitAnswer::Undecided,
            why: Some("not measured in this run".to_owned()),
        }
    }
}

/// The names and ranges of a file: `"memory.latency.dram" = "..130 ns"`.
///
/// # Errors
/// The first line that is not a limit.
pub fn entries(text: &str) -> Result<Vec<(String, String)>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |at| 1 + text[..at.start].matches('\n').count());
        format!("line {line}: {}; such as \"memory.latency.dram\" = \"..130 ns\"", error.message())
    })?;
    let entry = |(name, value): (String, toml::Value)| match value {
        toml::Value::String(range) => Ok((name, range)),
        _ => Err(format!(
            "{name}: not a limit in quotes, name and range: \"memory.latency.dram\" = \"..130 ns\""
        )),
    };
    table.into_iter().map(entry).collect()
}

/// What an end is.
fn kind(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "a time with its unit",
        Unit::BytesPerSecond => "a rate in bytes with its unit",
        Unit::PerSecond => "a rate with its unit",
        Unit::Bytes => "a size with its unit",
        Unit::Hertz => "a frequency with its unit",
        Unit::Ratio => "a number without a unit",
    }
}

/// A number with a unit, in the base unit.
fn parsed(text: &str, unit: Unit) -> Option<f64> {
    let is_number = |c: char| c.is_ascii_digit() || ".+-".contains(c);
    let end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    // `1e9` and `1e9 B`, but not the first letter of a unit.
    let exponent = text[end..]
        .strip_prefix(['e', 'E'])
        .map_or(0, |rest| 1 + rest.find(|c: char| !is_number(c)).unwrap_or(rest.len()));
    let (number, suffix) = text.split_at(end + exponent);
    let number: f64 = number.parse().ok()?;
    let suffix = suffix.trim();
    let per_second = || suffix.strip_suffix("/s").map(str::trim_end);
    let factor = match unit {
        Unit::Nanoseconds => match suffix {
            "ns" => 1.0,
            "µs" | "us" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return None,
        },
        Unit::Bytes => bytes(suffix)?,
        Unit::BytesPerSecond => bytes(per_second()?)?,
        Unit::PerSecond => match per_second()? {
            "" | "ops" => 1.0,
            "k" | "kops" => 1e3,
            "M" | "Mops" => 1e6,
            "G" | "Gops" => 1e9,
            _ => return None,
        },
        Unit::Hertz => match suffix {
            "Hz" => 1.0,
            "kHz" => 1e3,
            "MHz" => 1e6,
            "GHz" => 1e9,
            _ => return None,
        },
        Unit::Ratio if suffix.is_empty() => 1.0,
        Unit::Ratio => return None,
    };
    Some(number * factor).filter(|value| value.is_finite())
}

fn bytes(suffix: &str) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 9] = [
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
    ];
    SUFFIXES.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use fathom_record::Summary;

    use super::*;

    fn record(unit: Unit, better: Better, low: f64, median: f64, high: f64) -> Record {
        let record = Record::fixture("memory.latency.dram", unit).measured([low, median, high]);
        Record { better, ..record }
    }

    #[test]
    fn ends_have_the_units_of_the_metric() {
        let ns = |text: &str| UserLimit::parse(text, Unit::Nanoseconds).map(|it| (it.low, it.high));
        assert_eq!(ns("..130 ns"), Ok((None, Some(130.0))));
        assert_eq!(ns("1.5 µs.."), Ok((Some(1_500.0), None)));
        assert_eq!(ns("90..130ns"), Ok((Some(90.0), Some(130.0))));
        assert_eq!(ns("90 ns .. 0.2 ms"), Ok((Some(90.0), Some(200_000.0))));
        let rate = |text: &str| UserLimit::parse(text, Unit::BytesPerSecond).map(|it| it.low);
        assert_eq!(rate("20 GB/s.."), Ok(Some(2e10)));
        assert_eq!(rate("1 GiB/s.."), Ok(Some(1_073_741_824.0)));
        assert_eq!(rate("1e3 MB/s.."), Ok(Some(1e9)));
        let plain = |text: &str| UserLimit::parse(text, Unit::Ratio).map(|it| (it.low, it.high));
        assert_eq!(plain("0.9..1.1"), Ok((Some(0.9), Some(1.1))));
        assert_eq!(
            UserLimit::parse("2.5 GHz..", Unit::Hertz).map(|it| it.low),
            Ok(Some(2_500_000_000.0))
        );
        let dots = "expected a range with two dots";
        for (wrong, why) in [
            ("", dots),
            ("130 ns", dots),
            ("..1 ns..2 ns", dots),
            ("..", "has no end"),
            ("..130", "\"130\" is not a time with its unit"),
            ("..130 B", "\"130 B\" is not a time with its unit"),
            ("x..1 ns", "\"x\" is not a time with its unit"),
        ] {
            let example = "such as 90 ns..130 ns, ..2 µs";
            assert_eq!(ns(wrong), Err(format!("{wrong:?}: {why}, {example}")));
        }
        assert!(ns("5 ns..4 ns").expect_err("reversed").ends_with("low end is above the high end"));
        assert!(ns("..-1 ns").expect_err("negative").ends_with("no number is below 0"));
    }

    #[test]
    fn texts_are_read_back() {
        for (unit, value) in [
            (Unit::Nanoseconds, 154.2),
            (Unit::Nanoseconds, 6.12e7),
            (Unit::BytesPerSecond, 3.25e10),
            (Unit::Bytes, 36_423.0),
            (Unit::Hertz, 3.7e9),
            (Unit::PerSecond, 123_456.0),
            (Unit::Ratio, 1.25),
        ] {
            let limit = UserLimit { low: Some(value), high: None };
            let text = limit.text(unit);
            let read = UserLimit::parse(&text, unit).expect(&text).low.expect("an end");
            assert!((read / value - 1.0).abs() < 1e-3, "{text}: {read} {value}");
        }
    }

    #[test]
    fn whole_interval_decides() {
        let limit = UserLimit::parse("..130 ns", Unit::Nanoseconds).unwrap();
        let of = |low, median, high| {
            limit.judge(&record(Unit::Nanoseconds, Better::Lower, low, median, high)).answer
        };
        assert_eq!(of(110.0, 120.0, 130.0), LimitAnswer::Kept);
        assert_eq!(of(110.0, 120.0, 130.1), LimitAnswer::Undecided);
        assert_eq!(of(130.1, 150.0, 160.0), LimitAnswer::NotKept);
        let mut unknown = record(Unit::Nanoseconds, Better::Lower, 1.0, 1.0, 1.0);
        unknown.summary.as_mut().unwrap().interval = None;
        assert_eq!(limit.judge(&unknown).answer, LimitAnswer::Undecided);
        unknown.summary = None;
        assert_eq!(limit.judge(&unknown).answer, LimitAnswer::Undecided);
        unknown.summary = Some(Summary { median: 1.0, bound: Some(2.0), ..Summary::default() });
        assert_eq!(limit.judge(&unknown).answer, LimitAnswer::Kept, "at most 2 ns");
        let above = UserLimit { low: Some(3.0), high: None };
        assert_eq!(above.judge(&unknown).answer, LimitAnswer::NotKept);
        let below = UserLimit { low: Some(1.0), high: None };
        assert_eq!(below.judge(&unknown).answer, LimitAnswer::Undecided);
        let missing = limit.not_measured("memory.latency.dram", Unit::Nanoseconds);
        let kept = limit.judge(&record(Unit::Nanoseconds, Better::Lower, 1.0, 1.0, 1.0));
        let all = |rows: &[&LimitJudged]| {
            LimitJudgement::new(<[String; 3]>::default(), rows.iter().copied().cloned().collect())
                .answer
        };
        assert_eq!(all(&[&kept]), LimitAnswer::Kept);
        assert_eq!(all(&[&kept, &missing]), LimitAnswer::Undecided);
        let broken = limit.judge(&record(Unit::Nanoseconds, Better::Lower, 200.0, 210.0, 220.0));
        assert_eq!(all(&[&kept, &missing, &broken]), LimitAnswer::NotKept);
    }

    #[test]
    fn limits_of_a_good_machine_are_on_the_worse_side() {
        let around = |better| {
            let limit = UserLimit::around(&record(Unit::Ratio, better, 100.0, 110.0, 120.0), 0.05);
            limit.map(|it| (it.low.map(f64::round), it.high.map(f64::round)))
        };
        // Four digits of the text never cut off the number that they come from.
        let tight = record(Unit::Nanoseconds, Better::Lower, 1.116_42, 1.116_43, 1.116_44);
        let written = UserLimit::around(&tight, 0.0).map(|it| it.text(Unit::Nanoseconds));
        let read =
            UserLimit::parse(&written.expect("a limit"), Unit::Nanoseconds).expect("its own");
        assert_eq!(read.judge(&tight).answer, LimitAnswer::Kept);
        assert_eq!(around(Better::Lower), Some((None, Some(126.0))));
        assert_eq!(around(Better::Higher), Some((Some(95.0), None)));
        assert_eq!(around(Better::Neither), Some((Some(95.0), Some(126.0))));
        let mut noisy = record(Unit::Ratio, Better::Lower, 1.0, 1.0, 1.0);
        noisy.verdict.state = State::Noisy;
        assert_eq!(UserLimit::around(&noisy, 0.05), None);
    }
}
