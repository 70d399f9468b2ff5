//! Thousands of single timings in little room: an HdrHistogram of three significant digits.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Counts;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer as From, Serialize, Serializer as Into};

/// Significant digits: buckets are at most a thousandth of their value wide.
const DIGITS: u8 = 3;
/// How an uncompressed HdrHistogram V2 begins.
const COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Where an encoded histogram has its number of significant digits.
const DIGITS_AT: std::ops::Range<usize> = 12..16;
/// The longest text that is read: no histogram of three digits has a longer one.
const TEXT_MAX: usize = 1 << 20;

/// Counts of single timings, in the metric's unit. Histograms merge, quantiles do not.
#[derive(Clone, PartialEq)]
pub struct Histogram(Counts<u64>);

impl Histogram {
    /// An empty one, which takes any time.
    ///
    /// # Panics
    /// Never: three digits are a valid precision.
    pub fn new() -> Self {
        Self(Counts::new(DIGITS).expect("a valid precision"))
    }

    /// Counts one timing, as a whole number.
    ///
    /// # Panics
    /// Never: it grows to the time it is given.
    pub fn add(&mut self, value: f64) {
        self.0.record(value.round() as u64).expect("it grows");
    }

    /// Adds all that another one counted.
    ///
    /// # Panics
    /// Never: it grows to the other's largest time.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("it grows");
    }

    /// How many times were counted.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time that a share `q` of all does not exceed; none where there are none.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        (!self.is_empty()).then(|| self.middle_of(self.0.value_at_quantile(q)))
    }

    /// At most so many of the timings, ascending and at even ranks: they keep the shape.
    pub fn ranks(&self, most: u64) -> Vec<f64> {
        let (count, mut below) = (most.min(self.len()), 0);
        let mut ranks = Vec::new();
        for bucket in self.0.iter_recorded() {
            below += bucket.count_at_value();
            while ranks.len() as u64 * self.len() < below * count {
                ranks.push(self.middle_of(bucket.value_iterated_to()));
            }
        }
        ranks
    }

    /// The smallest time.
    pub fn min(&self) -> f64 {
        self.middle_of(self.0.min())
    }

    /// The largest time.
    pub fn max(&self) -> f64 {
        self.middle_of(self.0.max())
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Their standard deviation.
    pub fn standard_deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// The middle of the bucket of a time: its ends would be biased.
    fn middle_of(&self, ns: u64) -> f64 {
        self.0.median_equivalent(ns) as f64
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<f64> for Histogram {
    fn from_iter<I: IntoIterator<Item = f64>>(times_ns: I) -> Self {
        let mut histogram = Self::new();
        times_ns.into_iter().for_each(|ns| histogram.add(ns));
        histogram
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram of {}, {}..={} ns", self.len(), self.min(), self.max())
    }
}

/// HdrHistogram V2, base64: what its other implementations read.
impl Serialize for Histogram {
    fn serialize<S: Into>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        to.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: From<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        if text.len() > TEXT_MAX {
            return Err(D::Error::custom("a histogram longer than any of three digits"));
        }
        let bytes = STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)?;
        // Its header decides how much memory is taken: first of all it must be one of ours.
        let has_digits = bytes.get(DIGITS_AT) == Some(&u32::from(DIGITS).to_be_bytes());
        if !bytes.starts_with(&COOKIE) || !has_digits {
            return Err(D::Error::custom("no HdrHistogram V2 of three significant digits"));
        }
        let mut counts: Counts<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(D::Error::custom)?;
        counts.auto(true);
        Ok(Self(counts))
    }
}

impl JsonSchema for Histogram {
    fn schema_name() -> Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "contentEncoding": "base64",
            "description": "Counts of single timings: HdrHistogram V2 of three significant digits."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_keeps_a_thousandth_and_merges() {
        let one: Histogram = (1..=5_000).map(f64::from).collect();
        let mut both = one.clone();
        both.merge(&(5_001..=10_000).map(f64::from).collect());
        assert_eq!((both.len(), both.min()), (10_000, 1.0));
        for (q, expected) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = both.quantile(q).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-3, "{q}: {found}");
        }
        both.add(1e15);
        assert!((both.max() / 1e15 - 1.0).abs() < 1e-3, "it grows");
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn ranks_keep_the_shares_of_a_histogram() {
        let histogram: Histogram = (0..100).map(|i| if i < 30 { 10.0 } else { 20.0 }).collect();
        for most in [10, 100, 1_000] {
            let ranks = histogram.ranks(most);
            let low = ranks.iter().filter(|it| **it == 10.0).count();
            assert_eq!((ranks.len(), 10 * low), (most.min(100) as usize, 3 * ranks.len()));
        }
        assert!(Histogram::new().ranks(10).is_empty());
    }

    #[test]
    fn histogram_survives_json() {
        let mut histogram: Histogram = (0..3_000).map(|i| f64::from(i) * 1e6).collect();
        let text = serde_json::to_string(&histogram).unwrap();
        let mut back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back, histogram);
        histogram.add(1e15);
        back.add(1e15);
        assert_eq!(back, histogram, "it still grows");
    }

    #[test]
    fn million_timings_take_little_room() {
        // From nanoseconds to minutes, no two alike.
        let histogram: Histogram = (1..=1_000_000).map(|i| 1.00003_f64.powi(i % 900_000)).collect();
        let text = serde_json::to_string(&histogram).unwrap();
        assert!(histogram.len() == 1_000_000 && text.len() < 128 << 10, "{}", text.len());
    }

    #[test]
    fn foreign_or_spoilt_histogram_is_refused() {
        let five_digits = {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&Counts::<u64>::new(5).unwrap(), &mut bytes).unwrap();
            STANDARD.encode(bytes)
        };
        // A compressed one has a second header, which nothing was checked of.
        let compressed = {
            let text: String = serde_json::from_value(serde_json::json!(Histogram::new())).unwrap();
            let mut bytes = STANDARD.decode(text).unwrap();
            bytes[3] += 1;
            STANDARD.encode(bytes)
        };
        let refused = serde_json::from_value::<Histogram>(compressed.into()).unwrap_err();
        assert!(refused.to_string().starts_with("no HdrHistogram V2"), "{refused}");
        for text in ["", "AAAA", "not base64!", &five_digits, &"A".repeat(TEXT_MAX + 1)] {
            serde_json::from_value::<Histogram>(text.into()).unwrap_err();
        }
    }
}
