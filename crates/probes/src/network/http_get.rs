//! network.http.get: a request and its response over a kept HTTP connection.

use std::cell::RefCell;
use std::net::TcpStream;

use fathom_measure::sampler::LOOPBACK;
use fathom_record::Histogram;
use rustix::net::sockopt;

use super::FAR_END;
use super::connections::{TO, rtt, to};
use super::service::{Served, Service};
use super::tcp_info::TcpInfo;
use crate::prelude::*;

metric!(HttpGet, ABOUT);

static ABOUT: About = About {
    id: "network.http.get",
    title: "HTTP GET",
    timed: "a GET of this many bytes from the memory of a Fathom service over a kept connection, \
            until the last byte of the body has arrived. Includes parsing both heads, one clock \
            read and one histogram count. Quantiles: single requests",
    not_timed: "starting the service, connecting (network.tcp.connect), files (file.read.remote)",
    model: "up to 32 KiB: network.tcp.rtt{bytes=56, cpus=2, mode=block} to the same far end + \
            os.epoll{fds=10}, ± 20 %: the request and the beginning of the response are a segment \
            each, both ends are woken, and the server waits in epoll_wait before it reads. Above: \
            a bound, ≥ network.tcp.rtt, no value, as window size and copies dominate",
    source: "RFC 9112; the service waits in epoll_wait(2), parses, and sends head and body by one \
             call up to 32 KiB",
    pitfalls: &[
        "on loopback the service is a process of its own for each visit, pinned to the other CPU, \
         with one thread that handles requests",
        "a fresh connection costs its set-up and begins with a small congestion window: the \
         connection here is kept",
        "large bodies are a bandwidth: BBR paces even loopback; the record has the congestion \
         control, the windows and the retransmits",
        "each response is parsed; another status or length is no result",
    ],
    parameters: &[Parameter::new("bytes", "1, 4K, 1M", "of the body; quick: 4K"), TO],
    needs: &["network.tcp.rtt", "os.epoll"],
    requires: "a loopback interface and two CPUs; a folder for temporary files",
    cases_share_visits: false,
    // The folder that the service serves is empty.
    disk: Some(MetricDisk { large: 0, own: 4096 }),
    ..FAR_END
};

const SIZES: [i64; 3] = [1, 4 << 10, 1 << 20];
/// Head and body leave by one call up to this size.
const ONE_SEND: i64 = 32 << 10;

fn params(bytes: i64, to: &str) -> Params {
    Params::one("bytes", bytes).and("to", to)
}

impl Probe for HttpGet {
    fn selection(&self, _: &ProbeCase, _: &Host) -> Result<Stratum, NotSelected> {
        Err(NotSelected::SecondCpu)
    }

    fn cases(&self, _: &Host, sizes: &Sizes) -> Vec<ProbeCase> {
        let is_quick = sizes.effort == Effort::Quick;
        let chosen = SIZES.into_iter().filter(|bytes| !is_quick || *bytes == SIZES[1]);
        // 7 rounds of three batches, each of a request at least.
        let cost_ns = |bytes: i64| 12e6 + 20.0 * bytes as f64;
        chosen
            .map(|bytes| ProbeCase { params: params(bytes, LOOPBACK), cost_ns: cost_ns(bytes) })
            .collect()
    }

    fn remote(&self, case: &ProbeCase, to: &str) -> Option<ProbeCase> {
        let bytes = case.params.integer("bytes")?;
        // 100 Mbit/s.
        Some(ProbeCase { params: params(bytes, to), cost_ns: 200e6 + 40.0 * 80.0 * bytes as f64 })
    }

    fn predict(&self, case: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        let to = parsed(&case.params, |params| to(params).map(str::to_owned))?;
        let source = "a segment each way at least, and both ends are woken";
        let trip = rtt(&to, "block", 56);
        if case.params.integer("bytes") > Some(ONE_SEND) {
            return at_least("network.tcp.rtt", &trip, source, known);
        }
        let sum = Sum {
            terms: &[
                Term::once("network.tcp.rtt", trip),
                Term::once("os.epoll", Params::one("fds", 10)),
            ],
            tolerance: 0.2,
            source,
            otherwise: "parsing and copying take longer than a wake-up, or one of the two was \
                        disturbed",
        };
        // The round trip is nearly all of it.
        Ok(sum.predict(known)?.self_consistent())
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let parse = |params: &Params| Some((to(params)?.to_owned(), params.integer("bytes")?));
        each_parsed(cases, sampler, parse, |index, (to, bytes), sampler| {
            measure(index, (&to, bytes), sampler)
        })
    }
}

fn measure(case: usize, (to, bytes): (&str, i64), sampler: &mut Sampler) -> Result<()> {
    let place = sampler.resources().far_end(to)?;
    let served = Served::new(sampler)?;
    let service = Service::open(&place, &served, sampler)?;
    let mut control = service.control();
    let telemetry = |error| service.refused("telemetry", error);
    let before = control.telemetry().map_err(telemetry)?;
    let stream = service.connect()?;
    let first = TcpInfo::from_socket(&stream);
    let timings = RefCell::new(Histogram::new());
    let mut near = HttpGetNear {
        service: &service,
        stream: &stream,
        request: service.request(&format!("/.fathom/source/{bytes}"), None),
        bytes: bytes as usize,
        buffer: Vec::new(),
        done: 0,
        fault: None,
    };
    let clock = sampler.clock().clone();
    let work = SamplerWork::batched(case, |requests| near.repeat(requests, &clock, &timings));
    sampler.run(vec![work.timed(&timings)]);
    let (done, fault) = (near.done, near.fault.take());
    fault.map_or(Ok(()), Err)?;
    let after = control.telemetry().map_err(telemetry)?;
    state(case, &stream, first, after.congestion.as_deref(), sampler);
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns) as f64 / done.max(1) as f64;
    sampler.state(case, Fact::quantity("server CPU per request", cpu_ns, Unit::Nanoseconds));
    let counts = format!("{done} responses of {bytes} bytes");
    sampler.check(case, "responses", done > 0, counts);
    Ok(())
}

/// The facts of a connection to a service.
pub(super) fn state(
    case: usize,
    stream: &TcpStream,
    first: Option<TcpInfo>,
    far: Option<&str>,
    sampler: &mut Sampler,
) {
    let near = sockopt::tcp_congestion(stream).unwrap_or_default();
    let last = TcpInfo::from_socket(stream);
    let both = first.zip(last);
    let facts = both.map(|(first, last)| last.facts(&first, [&near, far.unwrap_or("unknown")]));
    facts.into_iter().flatten().for_each(|fact| sampler.state(case, fact));
}

struct HttpGetNear<'s> {
    service: &'s Service,
    stream: &'s TcpStream,
    request: Vec<u8>,
    bytes: usize,
    buffer: Vec<u8>,
    done: u64,
    fault: Option<SamplerFault>,
}

impl HttpGetNear<'_> {
    /// Makes requests, and returns how many had the expected response.
    fn repeat(&mut self, requests: u64, clock: &Clock, timings: &RefCell<Histogram>) -> u64 {
        let mut timings = timings.borrow_mut();
        let mut earlier = clock.start();
        for done in 0..requests {
            let exchange = self.service.exchange(self.stream, &self.request, 200, &mut self.buffer);
            match exchange {
                Ok(body) if body.len() == self.bytes => self.done += 1,
                Ok(_) => return done,
                Err(fault) => {
                    self.fault = Some(fault);
                    return done;
                }
            }
            // One stamp for each request: its end is the start of the next.
            let now = clock.stop();
            timings.add(clock.ns(earlier, now));
            earlier = now;
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn service_of_the_visit_answers() {
        let Some(_folder) = smoke::test_folder() else { return };
        let mut measured = 0;
        for (case, sample) in smoke::run(&HttpGet) {
            let Ok(sample) = sample else { continue };
            measured += 1;
            let bytes = case.params.integer("bytes").unwrap();
            let text = format!(" responses of {bytes} bytes");
            let responses = sample.checks.iter().find(|check| check.name == "responses").unwrap();
            assert!(responses.detail.ends_with(&text), "{responses:?}");
            assert!(!sample.histogram.unwrap().is_empty());
            let names: Vec<&str> = sample.facts.iter().map(|fact| fact.name.as_str()).collect();
            assert!(names.contains(&"MSS") && names.contains(&"server CPU per request"));
        }
        assert!(measured == 3 || affinity::allowed().len() == 1, "{measured}");
    }
}
