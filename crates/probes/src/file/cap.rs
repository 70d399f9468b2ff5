//! What the control group allows on a file's device, as it is said of a number.

use std::fs::File;

use fathom_analysis::statistics;
use fathom_fileio::caps::{self, Caps, LimitKind};
use fathom_record::{Cause, Fact, Origin, Prediction, Reason, Remedy, Unit};

/// So near to its cap a rate is the cap's, and not the device's.
const NEAR: f64 = 0.10;

/// The slices in which the kernel holds a limit, in seconds.
const SLICE_S: f64 = 0.1;

/// What the control group allows.
#[derive(Debug, PartialEq)]
pub(super) struct Cap {
    limits: Vec<String>,
    /// The lowest rate of bytes that follows, with its words.
    bound: Option<(f64, String)>,
}

impl Cap {
    /// On reads of a file. `request` is what a request to the device has in bytes, where that is
    /// known: past the page cache.
    pub(super) fn on_reads(file: &File, request: Option<usize>) -> Option<Self> {
        Self::of(&caps::of(file), LimitKind::ReadBytes, LimitKind::Reads, request)
    }

    /// On writes of a file.
    pub(super) fn on_writes(file: &File) -> Option<Self> {
        Self::of(&caps::of(file), LimitKind::WriteBytes, LimitKind::Writes, None)
    }

    /// None where there is no limit.
    fn of(caps: &Caps, bytes: LimitKind, requests: LimitKind, request: Option<usize>) -> Option<Self> {
        let mut limits = Vec::new();
        let mut bounds = Vec::new();
        if let Some(limit) = caps.limit(bytes) {
            let text = format!("{} by {}", megabytes(limit as f64), caps.by(bytes));
            bounds.push((limit as f64, text.clone()));
            limits.push(format!("capped: {text}"));
        }
        if let Some(limit) = caps.limit(requests) {
            let mut text = format!("{limit} requests/s by {}", caps.by(requests));
            if let Some(request) = request {
                let request = caps.largest_request.unwrap_or(u64::MAX).min(request as u64);
                let rate = limit as f64 * request as f64;
                text += &format!(", at most {} in requests of {request} bytes", megabytes(rate));
                bounds.push((rate, text.clone()));
            }
            limits.push(format!("capped: {text}"));
        }
        let bound = bounds.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        (!limits.is_empty()).then_some(Self { limits, bound })
    }

    /// The limits under each other.
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        self.limits.iter().map(|text| Fact::text("control group", text))
    }

    /// What the rate of so many bytes cannot exceed: a group that has read nothing for a while may
    /// take a slice's worth at once. None where all of them are no more than that.
    pub(super) fn prediction(&self, bytes: u64) -> Option<Prediction> {
        let (bound, text) = self.bound.as_ref()?;
        let held_s = bytes as f64 / bound - SLICE_S;
        if held_s < SLICE_S {
            return None;
        }
        let source = "Linux block/blk-throttle.c holds requests back above the limit, by slices of \
                      0.1 s, the first of which is free";
        let formula = "≤ bytes ÷ (bytes ÷ the control group's limit − 0.1 s)";
        let claim = Prediction::at_most(bytes as f64 / held_s, formula, source);
        let claim = claim.with_quantity(
            "limit",
            *bound,
            Unit::BytesPerSecond,
            Origin::ControlGroup { limit: text.clone() },
        );
        Some(claim.if_above("a part was in memory, or the limit was lifted meanwhile"))
    }

    /// That rates in bytes a second are those of the cap, if they are.
    pub(super) fn reached(&self, rates: &[f64]) -> Option<Reason> {
        let (bound, text) = self.bound.as_ref()?;
        let rate = statistics::median(rates)?;
        let is_near = (rate / bound - 1.0).abs() <= NEAR;
        let reason = || {
            let text = format!("as fast as its cap allows: {text}");
            Reason::new(Cause::Capped, text).with_remedy(Remedy::RaiseDeviceLimit)
        };
        is_near.then(reason)
    }
}

/// In the units in which limits are set.
fn megabytes(rate: f64) -> String {
    format!("{:.1} MB/s", rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(read_bps: Option<u64>, read_iops: Option<u64>) -> Caps {
        Caps { read_bps, read_iops, ..Caps::default() }
    }

    fn of(caps: &Caps, request: Option<usize>) -> Option<Cap> {
        Cap::of(caps, LimitKind::ReadBytes, LimitKind::Reads, request)
    }

    #[test]
    fn the_lower_of_both_limits_bounds_reads_of_a_known_size() {
        let caps = caps(Some(50_000_000), Some(1000));
        let cap = of(&caps, Some(4096)).expect("two limits");
        assert_eq!(cap.bound.as_ref().map(|bound| bound.0), Some(4_096_000.0));
        assert!(cap.limits[0].starts_with("capped: 50.0 MB/s by"), "{:?}", cap.limits);
        assert!(cap.reached(&[4_100_000.0]).is_some_and(|it| it.text.contains("1000 requests/s")));
        let cap = of(&caps, None).expect("two limits");
        assert_eq!(cap.bound.as_ref().map(|bound| bound.0), Some(5e7), "requests of no known size");
        assert_eq!(cap.limits.len(), 2);
    }

    #[test]
    fn a_block_above_the_largest_request_is_several_of_them() {
        let caps = Caps { largest_request: Some(1 << 20), ..caps(None, Some(10)) };
        let bound = |block| of(&caps, Some(block)).and_then(|cap| cap.bound).map(|bound| bound.0);
        assert_eq!(bound(16 << 20), Some(10.0 * 1_048_576.0));
        assert_eq!(bound(65_536), Some(655_360.0));
    }

    #[test]
    fn a_rate_is_its_caps_within_a_tenth_of_it_only() {
        let cap = of(&caps(Some(1_000_000), None), None).expect("a limit");
        assert!(cap.reached(&[1_090_000.0]).is_some() && cap.reached(&[910_000.0]).is_some());
        assert_eq!(cap.reached(&[890_000.0]), None);
        assert_eq!(cap.reached(&[1_110_000.0]), None);
        assert_eq!(cap.reached(&[]), None);
        assert_eq!(of(&caps(None, None), Some(4096)), None);
    }
}
