//! Answers of a malicious server, for the fuzzer in `fuzz/` and for tests, which replay its corpus.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fathom_http::ExchangeLimits;
use fathom_record::Host;
use serde::de::DeserializeOwned;

use crate::control::{ControlBody, ControlListing};
use crate::figures::{CacheChange, DiskRate, LoadTelemetry};
use crate::used::between;

const BODY_MAX: u64 = 1 << 10;

/// Two answers, separated by a NUL: telemetry at the beginning and at the end of a window.
pub fn telemetry(data: &[u8]) {
    let mut answers = data.splitn(2, |&byte| byte == 0).map(|mut bytes| {
        let stop = AtomicBool::new(false);
        let limits = ExchangeLimits::new(Duration::MAX, &stop);
        let _ = ControlBody::begin(&mut &bytes[..], limits, BODY_MAX)
            .and_then(|mut body| body.json::<ControlListing>());
        let mut body = ControlBody::begin(&mut bytes, limits, BODY_MAX).ok()?;
        let answer = body.answer(body.status).ok()?;
        assert!(answer.body.len() <= data.len() && answer.body_bytes <= BODY_MAX);
        Some(answer.body)
    });
    let (Some(Some(begin)), end) = (answers.next(), answers.next().flatten()) else { return };
    let _ = parsed::<ControlListing>(&begin);
    let change = parsed::<CacheChange>(&begin).and_then(|change| change.checked().ok());
    change.inspect(|change| _ = change.bytes + change.resident_bytes_after.unwrap_or(0));
    if let Some(rate) = parsed::<DiskRate>(&begin).and_then(|rate| rate.checked().ok()) {
        let _: u64 = rate.slots.iter().sum();
    }
    if let Some(host) = parsed::<Host>(&begin).filter(Host::is_printable) {
        assert!(!host.name.contains('\n'));
    }
    let telemetry = |body: &Vec<u8>| parsed::<LoadTelemetry>(body)?.checked().ok();
    let Some((begin, end)) = telemetry(&begin).zip(end.as_ref().and_then(telemetry)) else {
        return;
    };
    let one = between(&begin, &end);
    // As over the sweeps of a step.
    let all = one.clone().plus(one.clone()).plus(one);
    let rates = [
        all.cpus(),
        all.per_second(all.disk_bytes),
        all.per_second(all.wire_bytes),
        all.cpu_share(),
    ];
    let each = rates.into_iter().flatten().chain(all.per_request_ns).chain(all.per_byte_ns);
    each.for_each(|number| assert!(number.is_finite() && number >= 0.0, "{number}"));
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        let folder = format!("{}/../../fuzz/corpus/telemetry", env!("CARGO_MANIFEST_DIR"));
        let entries: Vec<_> = std::fs::read_dir(folder).expect("a corpus").collect();
        assert!(entries.len() >= 10, "{} inputs", entries.len());
        for entry in entries {
            telemetry(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        }
    }
}
