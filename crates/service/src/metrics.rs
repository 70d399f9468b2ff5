//! OpenMetrics for monitoring.

use fathom_record::openmetrics::{END, family, labels, sample};

use crate::counters::{Count, STATUSES, ServiceCounters, connections, sum};
use crate::shared::ServiceShared;
use crate::telemetry;

pub(crate) fn text(shared: &ServiceShared) -> String {
    let telemetry = telemetry::read(shared);
    let mut text = String::new();
    family(&mut text, "fathom_requests", "counter", "", "Requests by status.");
    for (at, status) in STATUSES.iter().enumerate() {
        let count = sum(&shared.counters, |counters| &counters.by_status[at]);
        if count > 0 {
            let labels = labels([("status", status.to_string())]);
            sample(&mut text, "fathom_requests_total", &labels, count);
        }
    }
    for (name, unit, help, of) in COUNTERS {
        family(&mut text, name, "counter", unit, help);
        sample(&mut text, &format!("{name}_total"), "", sum(&shared.counters, of));
    }
    let cpu = telemetry.cpu_ns as f64 / 1e9;
    family(&mut text, "fathom_cpu_seconds", "counter", "seconds", "CPU time of the process.");
    sample(&mut text, "fathom_cpu_seconds_total", "", cpu);
    let gauges = [
        ("fathom_connections", "", "Open connections.", connections(&shared.counters) as u64),
        ("fathom_resident_bytes", "bytes", "Resident memory.", telemetry.resident_bytes),
        ("fathom_descriptors", "", "Open descriptors.", telemetry.descriptors),
    ];
    for (name, unit, help, value) in gauges {
        family(&mut text, name, "gauge", unit, help);
        sample(&mut text, name, "", value);
    }
    text + END
}

type ServiceRow = (&'static str, &'static str, &'static str, fn(&ServiceCounters) -> &Count);

const COUNTERS: [ServiceRow; 7] = [
    ("fathom_body_bytes", "bytes", "Bytes of bodies sent.", |c| &c.body_bytes),
    ("fathom_sent_bytes", "bytes", "Bytes sent.", |c| &c.wire_bytes),
    ("fathom_accepted", "", "Connections accepted.", |c| &c.accepted),
    ("fathom_refused", "", "Connections refused at a limit.", |c| &c.refused),
    ("fathom_timed_out", "", "Connections closed at a time limit.", |c| &c.timed_out),
    ("fathom_broken", "", "Responses that ended early.", |c| &c.broken),
    ("fathom_lane_reads", "", "Reads that waited for a device.", |c| &c.lane_reads),
];
