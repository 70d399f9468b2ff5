//! I/O limits of the control group as facts, bounds and remarks of a record.

use std::fs::File;

use fathom_fileio::caps::{self, Caps, LimitKind};

use crate::prelude::*;

/// A rate within this share of its cap is set by the cap.
const NEAR: f64 = 0.10;

/// Time slice of blk-throttle, in seconds.
const SLICE_S: f64 = 0.1;

#[derive(Debug, PartialEq)]
pub(super) struct Cap {
    /// One line per limit.
    limits: Vec<String>,
    /// The lowest resulting byte rate, with its description.
    bound: Option<(f64, String)>,
}

impl Cap {
    /// On reads of a file. `request`: bytes of a request to the device, known for direct I/O.
    pub(super) fn on_reads(file: &File, request: Option<usize>) -> Option<Self> {
        Self::from_caps(&caps::caps_of(file), LimitKind::ReadBytes, LimitKind::Reads, request)
    }

    pub(super) fn on_writes(file: &File) -> Option<Self> {
        Self::from_caps(&caps::caps_of(file), LimitKind::WriteBytes, LimitKind::Writes, None)
    }

    fn from_caps(
        caps: &Caps,
        bytes: LimitKind,
        requests: LimitKind,
        request: Option<usize>,
    ) -> Option<Self> {
        let mut limits = Vec::new();
        let mut bounds = Vec::new();
        if let Some(limit) = caps.limit(bytes) {
            let rate = limit.rate as f64;
            let text = format!("{} by {}", megabytes(rate), limit.set_by);
            bounds.push((rate, text.clone()));
            limits.push(format!("capped: {text}"));
        }
        if let Some(limit) = caps.limit(requests) {
            let mut text = format!("{} requests/s by {}", limit.rate, limit.set_by);
            if let Some(request) = request {
                let request = caps.largest_request.unwrap_or(u64::MAX).min(request as u64);
                let rate = limit.rate as f64 * request as f64;
                text += &format!(", at most {} in requests of {request} bytes", megabytes(rate));
                bounds.push((rate, text.clone()));
            }
            limits.push(format!("capped: {text}"));
        }
        let bound = bounds.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        (!limits.is_empty()).then_some(Self { limits, bound })
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        self.limits.iter().map(|text| Fact::text("control group", text))
    }

    /// The bound on the rate of a transfer. A group that was idle may transfer one slice's worth at
    /// once: `None` if the whole transfer is not much more.
    pub(super) fn prediction(&self, bytes: u64) -> Option<Prediction> {
        let (bound, text) = self.bound.as_ref()?;
        let held_s = bytes as f64 / bound - SLICE_S;
        if held_s < SLICE_S {
            return None;
        }
        let source = "Linux block/blk-throttle.c delays requests above the limit, in slices of \
                      0.1 s; the first slice is not delayed";
        let formula = "≤ bytes ÷ (bytes ÷ the control group's limit − 0.1 s)";
        let claim = Prediction::at_most(bytes as f64 / held_s, formula, source);
        let origin = Origin::ControlGroup { limit: text.clone() };
        let claim = claim.with_quantity("limit", *bound, Unit::BytesPerSecond, origin);
        Some(claim.if_above("part of the file was cached, or the limit was raised during the run"))
    }

    /// The remark if the median of the rates is at the cap.
    pub(super) fn reached(&self, rates: &[f64]) -> Option<Reason> {
        let (bound, text) = self.bound.as_ref()?;
        let rate = statistics::median(rates)?;
        let is_near = (rate / bound - 1.0).abs() <= NEAR;
        let reason = || {
            let text = format!("at its cap: {text}");
            Reason::new(Cause::Capped, text).with_remedy(Remedy::RaiseDeviceLimit)
        };
        is_near.then(reason)
    }
}

/// Limits are set in decimal units.
fn megabytes(rate: f64) -> String {
    format!("{:.1} MB/s", rate / 1e6)
}

#[cfg(test)]
mod tests {
    use fathom_fileio::caps::CapLimit;

    use super::*;

    fn caps(read_bps: Option<u64>, read_iops: Option<u64>) -> Caps {
        let limit = |rate: Option<u64>| rate.map(|rate| CapLimit { rate, set_by: String::new() });
        Caps { limits: [limit(read_bps), None, limit(read_iops), None], ..Caps::default() }
    }

    fn from_caps(caps: &Caps, request: Option<usize>) -> Option<Cap> {
        Cap::from_caps(caps, LimitKind::ReadBytes, LimitKind::Reads, request)
    }

    #[test]
    fn lower_limit_bounds_reads_of_known_size() {
        let caps = caps(Some(50_000_000), Some(1000));
        let cap = from_caps(&caps, Some(4096)).expect("two limits");
        assert_eq!(cap.bound.as_ref().map(|bound| bound.0), Some(4_096_000.0));
        assert!(cap.limits[0].starts_with("capped: 50.0 MB/s by"), "{:?}", cap.limits);
        assert!(cap.reached(&[4_100_000.0]).is_some_and(|it| it.text.contains("1000 requests/s")));
        let cap = from_caps(&caps, None).expect("two limits");
        assert_eq!(cap.bound.as_ref().map(|bound| bound.0), Some(5e7), "request size unknown");
        assert_eq!(cap.limits.len(), 2);
    }

    #[test]
    fn block_above_largest_request_is_split() {
        let caps = Caps { largest_request: Some(1 << 20), ..caps(None, Some(10)) };
        let bound =
            |block| from_caps(&caps, Some(block)).and_then(|cap| cap.bound).map(|bound| bound.0);
        assert_eq!(bound(16 << 20), Some(10.0 * 1_048_576.0));
        assert_eq!(bound(65_536), Some(655_360.0));
    }

    #[test]
    fn rate_is_at_its_cap_within_10_percent() {
        let cap = from_caps(&caps(Some(1_000_000), None), None).expect("a limit");
        assert!(cap.reached(&[1_090_000.0]).is_some() && cap.reached(&[910_000.0]).is_some());
        assert_eq!(cap.reached(&[890_000.0]), None);
        assert_eq!(cap.reached(&[1_110_000.0]), None);
        assert_eq!(cap.reached(&[]), None);
        assert_eq!(from_caps(&caps(None, None), Some(4096)), None);
    }
}
