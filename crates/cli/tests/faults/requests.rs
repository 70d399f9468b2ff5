//! A million requests leave no descriptor, thread or memory behind in the service.

use std::collections::BTreeMap;

use fathom_analysis::statistics;
use fathom_lab::client::LabClient;
use fathom_lab::seeded::Seeded;

use crate::serving::{Serving, ServingUsage};
use crate::test_env::wait_for;
use crate::{is_soak, scaled, write_section};

/// In `make test`, and in `make soak`.
const ROUNDS: [usize; 2] = [5, 50];
const CLIENTS: usize = 4;
/// Requests of a connection, unless one of them ends it.
const PER_CONNECTION: u64 = 200;
/// After this many rounds everything that is made once exists.
const WARM_UP: [usize; 2] = [1, 5];
/// The trend of the memory is fitted to this many means, since successive values are correlated.
const BLOCKS: usize = 9;
const GROWTH_MAX_BYTES: i64 = 256 << 10;

/// What a request asks for, and how often in a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestKind {
    Small,
    Medium,
    Range,
    Head,
    Missing,
    Unchanged,
    Folder,
    Metrics,
    Listing,
    Malformed,
    Refused,
    HalfSent,
    Unread,
}

const KINDS: [(RequestKind, u64); 13] = [
    (RequestKind::Small, 36),
    (RequestKind::Medium, 10),
    (RequestKind::Range, 12),
    (RequestKind::Head, 8),
    (RequestKind::Missing, 10),
    (RequestKind::Unchanged, 10),
    (RequestKind::Folder, 5),
    (RequestKind::Metrics, 1),
    (RequestKind::Listing, 1),
    (RequestKind::Malformed, 2),
    (RequestKind::Refused, 2),
    (RequestKind::HalfSent, 2),
    (RequestKind::Unread, 1),
];

impl RequestKind {
    fn draw(seeds: &mut Seeded) -> Self {
        let mut left = seeds.below(100);
        for (kind, share) in KINDS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Self::Small
    }
}

/// The files of the service.
struct RequestFiles {
    small: Vec<u8>,
    medium: Vec<u8>,
    etag: String,
}

impl RequestFiles {
    fn write(service: &Serving) -> Self {
        let (small, medium) = (service.file("small", 100), service.file("medium", 100_000));
        service.file("large", 8 << 20);
        let reply = service.connect().get("/small");
        Self { small, medium, etag: reply.field("ETag").expect("a tag").to_owned() }
    }

    /// Makes a request and checks the response; false if the connection ends with it.
    fn ask(&self, client: &mut LabClient, kind: RequestKind) -> bool {
        let tag = format!("If-None-Match: {}\r\n", self.etag);
        let (method, target, fields, status, body) = match kind {
            RequestKind::Small => ("GET", "/small", "", 200, Some(&self.small[..])),
            RequestKind::Medium => ("GET", "/medium", "", 200, Some(&self.medium[..])),
            RequestKind::Range => {
                let part = Some(&self.medium[500..70_000]);
                ("GET", "/medium", "Range: bytes=500-69999\r\n", 206, part)
            }
            RequestKind::Head => ("HEAD", "/large", "", 200, Some(&[][..])),
            RequestKind::Missing => ("GET", "/missing", "", 404, None),
            RequestKind::Unchanged => ("GET", "/small", &*tag, 304, Some(&[][..])),
            RequestKind::Folder => ("GET", "/", "", 200, None),
            RequestKind::Metrics => ("GET", "/.fathom/metrics", "", 200, None),
            RequestKind::Listing => ("GET", "/.fathom/list", "", 200, None),
            RequestKind::Malformed => ("GET", "/small", "no field\r\n", 400, None),
            RequestKind::Refused => ("POST", "/small", "Content-Length: 9\r\n", 400, None),
            RequestKind::HalfSent => {
                client.send("GET /small HTTP/1.1\r\nHost: loc");
                return false;
            }
            RequestKind::Unread => {
                client.send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
                return false;
            }
        };
        let fields: Vec<&str> = fields.lines().collect();
        let reply = client.request(method, target, &fields);
        assert_eq!(reply.status, status, "{kind:?}: {}", reply.head);
        assert!(body.is_none_or(|body| reply.body == body), "{kind:?}");
        !matches!(kind, RequestKind::Malformed | RequestKind::Refused)
    }
}

/// Makes a number of requests on as many connections as they take; how many of each kind, and the
/// connections.
fn client(
    service: &Serving,
    files: &RequestFiles,
    requests: usize,
    seed: u64,
) -> (BTreeMap<RequestKind, usize>, usize) {
    let (mut seeds, mut counts, mut connections) = (Seeded(seed), BTreeMap::new(), 0);
    let mut left = requests;
    while left > 0 {
        let mut client = service.connect();
        connections += 1;
        // mood: no request is made again: a malformed one ends its connection
        for _ in 0..seeds.below(PER_CONNECTION) + 1 {
            let kind = RequestKind::draw(&mut seeds);
            *counts.entry(kind).or_insert(0) += 1;
            left -= 1;
            if !files.ask(&mut client, kind) || left == 0 {
                break;
            }
        }
    }
    (counts, connections)
}

/// What the process has when it has noticed that its connections are closed: then it has no more
/// descriptors than before them.
fn settled(service: &Serving, descriptors: usize) -> ServingUsage {
    wait_for(|| Some(service.usage()).filter(|usage| usage.descriptors == descriptors))
        .unwrap_or_else(|| panic!("{descriptors} descriptors before, now {:?}", service.usage()))
}

#[test]
fn requests_leave_nothing_behind() {
    let requests = scaled(1000, 1_000_000);
    let rounds = scaled(ROUNDS[0], ROUNDS[1]);
    let service = Serving::start("");
    let descriptors = service.usage().descriptors;
    let files = RequestFiles::write(&service);
    let (mut counts, mut connections) = (BTreeMap::new(), 0);
    let mut usages = Vec::new();
    for round in 0..rounds {
        std::thread::scope(|scope| {
            let one = |number| {
                let seed = (round * CLIENTS + number) as u64;
                let (service, files) = (&service, &files);
                scope.spawn(move || client(service, files, requests / rounds / CLIENTS, seed))
            };
            let clients: Vec<_> = (0..CLIENTS).map(one).collect();
            for client in clients {
                let (of_client, opened) = client.join().expect("right answers");
                of_client
                    .iter()
                    .for_each(|(kind, count)| *counts.entry(*kind).or_insert(0) += count);
                connections += opened;
            }
        });
        usages.push(settled(&service, descriptors));
    }
    let total: usize = counts.values().sum();
    assert_eq!((total, counts.len()), (requests, KINDS.len()));
    let warm = &usages[scaled(WARM_UP[0], WARM_UP[1])..];
    assert!(warm.iter().all(|usage| usage.threads == warm[0].threads), "{warm:?}");
    if is_soak() {
        report(warm, &counts, connections);
    }
    service.stop();
}

fn report(warm: &[ServingUsage], counts: &BTreeMap<RequestKind, usize>, connections: usize) {
    let [_, rounds] = ROUNDS;
    let (first, last) = (warm[0], warm[warm.len() - 1]);
    let per_round: usize = counts.values().sum::<usize>() / rounds;
    let at: Vec<f64> = (0..warm.len()).map(|round| (round * per_round) as f64).collect();
    let bytes: Vec<f64> = warm.iter().map(|usage| usage.resident_bytes as f64).collect();
    let means = |values: &[f64]| statistics::block_means(values, BLOCKS);
    let trend = statistics::theil_sen(&means(&at), &means(&bytes)).expect("a trend");
    let growth = last.resident_bytes as i64 - first.resident_bytes as i64;
    let kinds: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
    write_section(
        "9-requests",
        &format!(
            "## Requests of the service\n\n\
             {} requests on {connections} connections: {}. Each was answered as it must be, or \
             its client left early. Descriptors, threads and anonymous memory of the process were \
             read {rounds} times; changes from the {}th to the last:\n\n\
             | descriptors | threads | memory, KiB | bytes per 1000 requests | 95 % interval |\n\
             |---|---|---|---|---|\n\
             | {:+} | {:+} | {:+} | {:+.0} | {:+.0} to {:+.0} |\n\n\
             At the end it has {} descriptors, {} threads and {} KiB.\n",
            per_round * rounds,
            kinds.join(", "),
            WARM_UP[1] + 1,
            last.descriptors as i64 - first.descriptors as i64,
            last.threads as i64 - first.threads as i64,
            growth / 1024,
            trend.slope * 1e3,
            trend.low * 1e3,
            trend.high * 1e3,
            last.descriptors,
            last.threads,
            last.resident_bytes >> 10,
        ),
    );
    assert!(trend.low <= 0.0 || growth < GROWTH_MAX_BYTES, "{growth} bytes more: {trend:?}");
}
