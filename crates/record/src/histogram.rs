//! Histograms for thousands of single timings: HdrHistogram with three significant digits.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Counts;
use hdrhistogram::serialization::{DeserializeError, Deserializer, Serializer as _, V2Serializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer as From, Serialize, Serializer as Into};

/// Significant digits: a bucket is at most a thousandth of its value wide.
const DIGITS: u8 = 3;
/// The first bytes of an uncompressed HdrHistogram V2.
const COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
/// Positions in an encoded histogram: the length of its counts, an offset of all, the number of
/// significant digits, the range of values, their ratio to others, and the counts.
const LENGTH_AT: Range<usize> = 4..8;
const OFFSET_AT: Range<usize> = 8..12;
const DIGITS_AT: Range<usize> = 12..16;
const LEAST_AT: usize = 16;
const MOST_AT: usize = 24;
const RATIO_AT: usize = 32;
const COUNTS_AT: usize = 40;
/// The longest text that is decoded; a histogram of three digits is never longer.
const TEXT_MAX: usize = 1 << 20;
/// The most timings that are read: of each nanosecond of three days, so that no sum overflows.
const TIMINGS_MAX: u64 = 1 << 48;

/// The longest timing that is read, in nanoseconds: 292 years.
const TIMING_MAX: u64 = i64::MAX as u64;

/// Counts of single timings, in the metric's unit. Histograms can be merged; quantiles cannot.
#[derive(Clone)]
pub struct Histogram(Form);

#[derive(Clone)]
enum Form {
    Counts(Counts<u64>),
    /// As it was read, and checked without decoding: a text of 60 bytes may have a count at 2⁶³,
    /// and half a megabyte is filled when it is decoded.
    Encoded(Box<[u8]>),
}

impl Histogram {
    pub fn new() -> Self {
        Self(Form::Counts(Counts::new(DIGITS).expect("a valid precision")))
    }

    /// Of timings up to `max`, all of whose memory is in use from the start: a histogram that grows
    /// looks like a leak. Larger timings are counted, too.
    pub fn with_room(max: u64) -> Self {
        let mut counts = Counts::new_with_max(max.max(2), DIGITS).expect("a valid precision");
        counts.auto(true);
        // Writes every page.
        counts.clear();
        Self(Form::Counts(counts))
    }

    fn counts(&self) -> Cow<'_, Counts<u64>> {
        match &self.0 {
            Form::Counts(counts) => Cow::Borrowed(counts),
            Form::Encoded(bytes) => Cow::Owned(decoded(bytes).expect("checked before")),
        }
    }

    fn counts_mut(&mut self) -> &mut Counts<u64> {
        if let Form::Encoded(bytes) = &self.0 {
            self.0 = Form::Counts(decoded(bytes).expect("checked before"));
        }
        match &mut self.0 {
            Form::Counts(counts) => counts,
            Form::Encoded(_) => unreachable!("decoded above"),
        }
    }

    /// Counts one timing, rounded to a whole number.
    pub fn add(&mut self, value: f64) {
        self.counts_mut().record(value.round() as u64).expect("resizes automatically");
    }

    pub fn merge(&mut self, other: &Self) {
        self.counts_mut().add(&*other.counts()).expect("resizes automatically");
    }

    /// The number of timings.
    pub fn len(&self) -> u64 {
        self.counts().len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts().is_empty()
    }

    /// The time that a share `q` of all timings does not exceed.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let counts = self.counts();
        (!counts.is_empty()).then(|| middle_of(&counts, counts.value_at_quantile(q)))
    }

    /// The timings, ascending, with the number of each.
    pub fn timings(&self) -> Vec<(f64, u64)> {
        let counts = self.counts();
        let each = counts.iter_recorded();
        each.map(|it| (middle_of(&counts, it.value_iterated_to()), it.count_at_value())).collect()
    }

    /// At most `most` timings, ascending, at evenly spaced ranks: they preserve the distribution.
    pub fn ranks(&self, most: u64) -> Vec<f64> {
        let counts = self.counts();
        let (count, mut below) = (most.min(counts.len()), 0);
        let mut ranks = Vec::new();
        for bucket in counts.iter_recorded() {
            below += bucket.count_at_value();
            while ranks.len() as u64 * counts.len() < below * count {
                ranks.push(middle_of(&counts, bucket.value_iterated_to()));
            }
        }
        ranks
    }

    pub fn min(&self) -> f64 {
        let counts = self.counts();
        middle_of(&counts, counts.min())
    }

    pub fn max(&self) -> f64 {
        let counts = self.counts();
        middle_of(&counts, counts.max())
    }

    pub fn mean(&self) -> f64 {
        self.counts().mean()
    }

    pub fn standard_deviation(&self) -> f64 {
        self.counts().stdev()
    }
}

/// The middle of a bucket: either end would be biased.
fn middle_of(counts: &Counts<u64>, ns: u64) -> f64 {
    counts.median_equivalent(ns) as f64
}

/// Whether it can be decoded, in one pass over its bytes and without memory.
fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let has_digits = bytes.get(DIGITS_AT) == Some(&u32::from(DIGITS).to_be_bytes());
    if !bytes.starts_with(&COOKIE) || !has_digits {
        return Err("not an HdrHistogram V2 of three significant digits");
    }
    let length = bytes.len().checked_sub(COUNTS_AT).and_then(|length| u32::try_from(length).ok());
    if bytes.get(LENGTH_AT) != length.map(u32::to_be_bytes).as_ref().map(<[u8; 4]>::as_slice) {
        return Err("histogram of another length than its header says");
    }
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
    let most = number(MOST_AT);
    let is_plain = bytes[OFFSET_AT] == [0; 4] && number(RATIO_AT) == 1.0_f64.to_bits();
    if !is_plain || number(LEAST_AT) != 1 || most < 2 {
        return Err("histogram with another range than from 1");
    }
    if most > TIMING_MAX {
        return Err("histogram with a highest value of 2^63 or more");
    }
    // The first 2048 values have a bucket each, and each doubling has another 1024.
    let doublings = (most >> 11).checked_ilog2().map_or(0, |log| u64::from(log) + 1);
    let buckets = (doublings + 2) << 10;
    let (mut rest, mut bucket, mut timings) = (&bytes[COUNTS_AT..], 0_u64, 0_u64);
    while !rest.is_empty() {
        match next(&mut rest).ok_or("histogram that ends within a count")? {
            // Of -2^63 zeros the decoder overflows.
            zeros @ ..0 => bucket = bucket.saturating_add(zeros.unsigned_abs()),
            count => {
                timings = timings.saturating_add(count as u64);
                bucket = bucket.saturating_add(1);
            }
        }
        if bucket > buckets {
            return Err("histogram with counts beyond its range");
        }
    }
    if timings > TIMINGS_MAX { Err("histogram of more than 2^48 timings") } else { Ok(()) }
}

/// The next number: LEB128 in at most nine bytes, whose last one has eight bits, in zigzag.
fn next(rest: &mut &[u8]) -> Option<i64> {
    let mut number = 0;
    for at in 0..9 {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        let bits = if at == 8 { byte } else { byte & 0x7f };
        number |= u64::from(bits) << (7 * at);
        if byte < 0x80 {
            break;
        }
    }
    Some((number >> 1) as i64 ^ -((number & 1) as i64))
}

/// Of bytes that were checked.
fn decoded(bytes: &[u8]) -> Result<Counts<u64>, DeserializeError> {
    let mut counts: Counts<u64> = Deserializer::new().deserialize(&mut &*bytes)?;
    counts.auto(true);
    Ok(counts)
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // A store compares all that it has written with what it reads back.
            (Form::Encoded(own), Form::Encoded(others)) if own == others => true,
            _ => self.counts() == other.counts(),
        }
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

/// HdrHistogram V2 in base64, which other implementations can decode.
impl Serialize for Histogram {
    fn serialize<S: Into>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            // Byte for byte, so that checksums stay.
            Form::Encoded(bytes) => to.serialize_str(&STANDARD.encode(bytes)),
            Form::Counts(counts) => {
                let mut bytes = Vec::new();
                V2Serializer::new().serialize(counts, &mut bytes).map_err(S::Error::custom)?;
                to.serialize_str(&STANDARD.encode(bytes))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: From<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        if text.len() > TEXT_MAX {
            return Err(D::Error::custom("histogram too long for three significant digits"));
        }
        let bytes = STANDARD.decode(text.as_bytes());
        let bytes = bytes
            .map_err(|error| D::Error::custom(format!("histogram that is not base64: {error}")))?;
        check(&bytes).map_err(D::Error::custom)?;
        Ok(Self(Form::Encoded(bytes.into_boxed_slice())))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Histogram {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "contentEncoding": "base64",
            "description": "Counts of single timings: HdrHistogram V2, three significant digits."
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_keeps_three_digits_and_merges() {
        let one: Histogram = (1..=5_000).map(f64::from).collect();
        let mut both = one.clone();
        both.merge(&(5_001..=10_000).map(f64::from).collect());
        assert_eq!((both.len(), both.min()), (10_000, 1.0));
        for (q, expected) in [(0.5, 5_000.0), (0.99, 9_900.0), (1.0, 10_000.0)] {
            let found = both.quantile(q).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-3, "{q}: {found}");
        }
        both.add(1e15);
        assert!((both.max() / 1e15 - 1.0).abs() < 1e-3, "resizes");
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn ranks_preserve_the_distribution() {
        let histogram: Histogram = (0..100).map(|i| if i < 30 { 10.0 } else { 20.0 }).collect();
        for most in [10, 100, 1_000] {
            let ranks = histogram.ranks(most);
            let low = ranks.iter().filter(|it| **it == 10.0).count();
            assert_eq!((ranks.len(), 10 * low), (most.min(100) as usize, 3 * ranks.len()));
        }
        assert!(Histogram::new().ranks(10).is_empty());
    }

    #[test]
    fn histogram_is_read_back_from_json() {
        let mut histogram: Histogram = (0..3_000).map(|i| f64::from(i) * 1e6).collect();
        let text = serde_json::to_string(&histogram).unwrap();
        let mut back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back, histogram);
        histogram.add(1e15);
        back.add(1e15);
        assert_eq!(back, histogram, "resizes after decoding");
    }

    #[test]
    fn histogram_that_was_read_is_as_small_as_its_text() {
        let wide: Histogram = [(1_u64 << 62) as f64].into_iter().collect();
        let text = serde_json::to_string(&wide).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        let Form::Encoded(bytes) = &back.0 else { panic!("decoded") };
        assert!(bytes.len() < 60, "{}", bytes.len());
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!((back.len(), back.max()), (1, wide.max()));
    }

    #[test]
    fn foreign_or_damaged_histogram_is_refused() {
        let five_digits = {
            let mut bytes = Vec::new();
            V2Serializer::new().serialize(&Counts::<u64>::new(5).unwrap(), &mut bytes).unwrap();
            STANDARD.encode(bytes)
        };
        let text: String = serde_json::from_value(serde_json::json!(Histogram::new())).unwrap();
        let bytes = STANDARD.decode(text).unwrap();
        // A compressed one has a second header, which is not checked.
        let compressed = {
            let mut bytes = bytes.clone();
            bytes[3] += 1;
            STANDARD.encode(bytes)
        };
        let refused = serde_json::from_value::<Histogram>(compressed.into()).unwrap_err();
        assert!(refused.to_string().starts_with("not an HdrHistogram V2"), "{refused}");
        // A length of 4 GiB, which would be allocated first.
        let (mut long, mut short) = (bytes.clone(), bytes.clone());
        long[LENGTH_AT].fill(0xff);
        short.pop();
        for bytes in [long, short] {
            let text = STANDARD.encode(bytes);
            let refused = serde_json::from_value::<Histogram>(text.into()).unwrap_err();
            assert!(refused.to_string().starts_with("histogram of another length"), "{refused}");
        }
        let mut high = bytes.clone();
        high[MOST_AT] = 0x80;
        assert_eq!(check(&high), Err("histogram with a highest value of 2^63 or more"));
        for text in ["", "AAAA", "not base64!", &five_digits, &"A".repeat(TEXT_MAX + 1)] {
            serde_json::from_value::<Histogram>(text.into()).unwrap_err();
        }
    }

    /// The check stands in for the decoder, which fills half a megabyte for a text of 60 bytes.
    #[test]
    fn what_the_check_accepts_is_decoded() {
        let encoded = |times: &[f64]| {
            let histogram: Histogram = times.iter().copied().collect();
            let text: String = serde_json::from_value(serde_json::json!(histogram)).unwrap();
            STANDARD.decode(text).unwrap()
        };
        let with_room = {
            let mut bytes = Vec::new();
            let Form::Counts(counts) = Histogram::with_room(10_000_000_000).0 else { panic!() };
            V2Serializer::new().serialize(&counts, &mut bytes).unwrap();
            bytes
        };
        let wide = [1.0, 2047.0, 2048.0, 4096.0, 1e9, (1_u64 << 62) as f64];
        let own = [encoded(&[]), encoded(&[5.0; 9]), encoded(&wide), with_room];
        let (mut accepted, mut refused) = (0, 0);
        for bytes in &own {
            assert_eq!(check(bytes), Ok(()));
            for at in 0..bytes.len() {
                for value in [0, 1, 2, 3, 0x7f, 0x80, 0xfe, 0xff] {
                    let mut other = bytes.clone();
                    other[at] = value;
                    if check(&other).is_ok() {
                        let counts = decoded(&other).unwrap();
                        assert!(counts.len() <= TIMINGS_MAX, "{other:?}");
                        accepted += 1;
                    } else {
                        refused += 1;
                    }
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
    }
}
