//! The members of a coordinator: who may join, what each does, and what it is sent next. No I/O,
//! no clock.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use fathom_far::printable;
use fathom_record::Host;

use super::plan::{CoordinatorPlan, Ended, Failure, Joined, PlanCounts, Present, Skew};
use crate::offset::{EXCHANGES, Offset, OffsetExchange};
use crate::protocol::{
    DOCUMENT_BYTES_MAX, FleetOrder, FleetProgress, FleetWork, Join, LOST_NS, MEMBERS_MAX, PORT_MIN,
    ToCoordinator, ToMember,
};

/// Members that deliver at a time: their documents are in memory.
const DELIVER_AT_ONCE: usize = 8;
/// Members whose clocks are compared at a time: more would wait for each other.
const COMPARE_AT_ONCE: usize = 8;
/// From the announcement of a start to the start, and so much more for each member: the last one
/// must have it in time.
const AHEAD_NS: u64 = 200_000_000;
const AHEAD_EACH_NS: u64 = 100_000;
/// Limits of a member's stages: starting a far end, getting ready (test files are written),
/// measuring (everything, thoroughly, on a slow machine), delivering.
const SERVE_NS: u64 = 60_000_000_000;
const READY_NS: u64 = 600_000_000_000;
const WORK_NS: u64 = 6 * 3_600_000_000_000;
const DELIVERY_NS: u64 = 120_000_000_000;

#[derive(Clone, Debug, PartialEq)]
enum RosterStage {
    /// For its order.
    Waiting,
    /// Its far end.
    Starting,
    /// To start together: it has its order.
    Preparing,
    Ready,
    Measuring,
    /// For its turn to deliver.
    Finished,
    Delivering,
    /// It has done the work of the round.
    Delivered,
    Lost(String),
}

struct RosterMember {
    /// Apart from what is looked at all the time.
    joined: Box<Joined>,
    boot_id: String,
    named_id: Option<String>,
    by_name: bool,
    /// From where it has joined.
    ip: IpAddr,
    /// The port of its far end.
    serves: Option<u16>,
    /// The member to which it measures.
    partner: Option<usize>,
    stage: RosterStage,
    since_ns: u64,
    heard_ns: u64,
    exchanges: u32,
    offset: Option<Offset>,
    skew: Option<Skew>,
    progress: FleetProgress,
}

impl RosterMember {
    fn is_lost(&self) -> bool {
        matches!(self.stage, RosterStage::Lost(_))
    }

    /// Whether nothing more is to come of it in this round.
    fn is_over(&self) -> bool {
        self.stage == RosterStage::Delivered || self.is_lost()
    }

    fn present(&self) -> Option<Present<'_>> {
        let serves = self.serves.map(|port| SocketAddr::new(self.ip, port));
        (!self.is_lost()).then_some(Present { name: &self.joined.name, serves })
    }

    fn is_busy(&self) -> bool {
        matches!(self.stage, RosterStage::Preparing | RosterStage::Ready | RosterStage::Measuring)
    }

    /// Its share of the whole.
    fn done(&self) -> f64 {
        match self.stage {
            RosterStage::Waiting
            | RosterStage::Starting
            | RosterStage::Preparing
            | RosterStage::Ready => 0.0,
            RosterStage::Measuring => self.progress.done,
            RosterStage::Finished
            | RosterStage::Delivering
            | RosterStage::Delivered
            | RosterStage::Lost(_) => 1.0,
        }
    }
}

pub(crate) struct Roster<'p> {
    plan: &'p CoordinatorPlan<'p>,
    members: Vec<RosterMember>,
    /// The members by rank, once the work has begun.
    places: Vec<usize>,
    begun_ns: u64,
    has_begun: bool,
    round: usize,
    rounds: usize,
    failures: Vec<Failure>,
    /// The announced start, by the coordinator's clock.
    start_ns: Option<u64>,
    /// Whether a member may be sent something since this was asked.
    has_changed: bool,
}

impl<'p> Roster<'p> {
    pub(crate) fn new(plan: &'p CoordinatorPlan<'p>) -> Self {
        Self {
            plan,
            members: Vec::new(),
            places: Vec::new(),
            begun_ns: (plan.clock)(),
            has_begun: false,
            round: 0,
            rounds: 1,
            failures: Vec::new(),
            start_ns: None,
            has_changed: true,
        }
    }

    /// Whether [`Roster::advance`] may have something to send since this was asked.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    pub(crate) fn member(&self, at: usize) -> &Joined {
        &self.members[at].joined
    }

    pub(crate) fn skew(&self, at: usize) -> Option<Skew> {
        self.members[at].skew
    }

    /// The member to which another one measures.
    pub(super) fn partner(&self, at: usize) -> Option<&Joined> {
        Some(self.member(self.members[at].partner?))
    }

    /// Whether members have more than one order.
    pub(super) fn stays(&self) -> bool {
        self.rounds > 1
    }

    /// Takes a member that has connected from this address.
    ///
    /// # Errors
    /// Why it is refused, for itself.
    pub(crate) fn admit(&mut self, join: Join, ip: IpAddr, now_ns: u64) -> Result<usize, String> {
        join.check()?;
        let Join { rank, node, boot_id, mut host, named_id } = join;
        let name = host.name.clone();
        let others = self.members.iter().filter(|it| it.joined.name == name);
        if others.count() > 0 {
            return Err(format!("another member is named {name}: name each host by FATHOM_HOST"));
        }
        let twin = self.members.iter().find(|it| it.boot_id == boot_id && !boot_id.is_empty());
        if let Some(twin) = twin.filter(|_| !self.plan.same_host) {
            return Err(format!(
                "{} is on the same machine (boot id); two would disturb each other: --same-host \
                 allows it",
                twin.joined.name
            ));
        }
        let is_late = self.has_begun && (self.plan.together || self.stays());
        if is_late || self.members.len() >= self.plan.expected.min(MEMBERS_MAX) {
            return Err(
                if is_late { "the others have begun" } else { "no more are expected" }.to_owned()
            );
        }
        // A thousand of them are held.
        host.origins.clear();
        self.members.push(RosterMember {
            boot_id,
            by_name: host.id.is_some() && host.id == named_id,
            named_id,
            joined: Box::new(Joined { name, node, rank, host }),
            ip,
            serves: None,
            partner: None,
            stage: RosterStage::Waiting,
            since_ns: now_ns,
            heard_ns: now_ns,
            exchanges: 0,
            offset: None,
            skew: None,
            progress: FleetProgress::default(),
        });
        let at = self.members.len() - 1;
        self.has_changed = true;
        if self.has_begun {
            self.places.push(at);
            self.name_clones();
        }
        Ok(at)
    }

    /// A message of a member, and the answer to it.
    ///
    /// # Errors
    /// Why the member is lost by it.
    pub(crate) fn heard(
        &mut self,
        at: usize,
        message: ToCoordinator,
        now_ns: u64,
    ) -> Result<Option<ToMember>, String> {
        let (start_ns, stays, round) = (self.start_ns, self.stays(), self.round);
        // A thousand members that answer 64 exchanges each change nothing but the last time.
        let is_frequent =
            matches!(message, ToCoordinator::Alive { .. } | ToCoordinator::Stamps { .. });
        self.has_changed |= !is_frequent;
        let (name, is_reachable) = (name_of(&message), self.is_reachable(at));
        let member = &mut self.members[at];
        member.heard_ns = now_ns;
        match (message, &member.stage) {
            (_, RosterStage::Lost(_)) => {}
            (_, RosterStage::Delivered) if !stays => {}
            (ToCoordinator::Alive { progress }, _) => {
                member.progress =
                    progress.map_or_else(FleetProgress::default, FleetProgress::plausible);
                return Ok(Some(ToMember::Alive));
            }
            (ToCoordinator::Ready, RosterStage::Preparing) => {
                member.enter(RosterStage::Ready, now_ns)
            }
            (ToCoordinator::Stamps { sent_ns, received_ns, answered_ns }, RosterStage::Ready)
                if (1..=EXCHANGES).contains(&member.exchanges) =>
            {
                let exchange =
                    OffsetExchange { sent_ns, received_ns, answered_ns, back_ns: now_ns };
                let offset = Offset::from_exchange(exchange).ok_or("its clock goes backwards")?;
                member.offset = Some(member.offset.map_or(offset, |it| it.better(offset)));
                member.exchanges += 1;
                self.has_changed |= member.exchanges > EXCHANGES;
                return Ok(member.exchange(now_ns));
            }
            (ToCoordinator::Started { at_ns }, RosterStage::Measuring) if member.skew.is_none() => {
                if let (Some(offset), Some(start_ns)) = (member.offset, start_ns) {
                    let ns = i128::from(at_ns) - i128::from(start_ns) - offset.ns;
                    member.skew = Some(Skew { ns: ns as f64, error_ns: offset.error_ns() });
                }
            }
            (ToCoordinator::Serving { port }, RosterStage::Starting) if port >= PORT_MIN => {
                if !is_reachable {
                    return Err("others cannot reach it: its connection comes over loopback, as \
                                through a tunnel"
                        .to_owned());
                }
                member.serves = Some(port);
                member.enter(RosterStage::Delivered, now_ns);
            }
            (ToCoordinator::Finished, RosterStage::Measuring) => {
                member.enter(RosterStage::Finished, now_ns)
            }
            (ToCoordinator::Document { bytes }, RosterStage::Delivering) => {
                if !(1..=DOCUMENT_BYTES_MAX).contains(&bytes) {
                    let limit = DOCUMENT_BYTES_MAX >> 20;
                    return Err(format!(
                        "its run has {bytes} bytes, at most {limit} MiB are taken"
                    ));
                }
            }
            (ToCoordinator::Failed { text }, RosterStage::Measuring)
                if member.partner.is_some() =>
            {
                member.enter(RosterStage::Delivered, now_ns);
                let place = self.places.iter().position(|other| *other == at).unwrap_or(at);
                self.failures.push(Failure { round, place, reason: printable(&text) });
            }
            (ToCoordinator::Failed { text }, _) => return Err(printable(&text)),
            _ => return Err(format!("a message out of turn: {name}")),
        }
        Ok(None)
    }

    /// Whether others can connect to the address from which a member has joined.
    fn is_reachable(&self, at: usize) -> bool {
        let member = &self.members[at];
        let is_here = |other: &RosterMember| other.boot_id == member.boot_id;
        !member.ip.is_loopback() || self.members.iter().all(is_here)
    }

    /// Bytes of its document arrive.
    pub(crate) fn hears_bytes(&mut self, at: usize, now_ns: u64) {
        self.members[at].heard_ns = now_ns;
    }

    pub(crate) fn delivered(&mut self, at: usize, now_ns: u64) {
        self.members[at].enter(RosterStage::Delivered, now_ns);
        self.has_changed = true;
    }

    /// A member that has delivered is not lost, unless it was to stay. Returns whether it is now.
    pub(crate) fn lose(&mut self, at: usize, reason: &str) -> bool {
        let stays = self.stays();
        let member = &mut self.members[at];
        let is_lost = !member.is_lost() && (stays || !member.is_over());
        if is_lost {
            member.stage = RosterStage::Lost(reason.to_owned());
            self.has_changed = true;
        }
        is_lost
    }

    /// The members that have exceeded a limit, and why.
    pub(crate) fn overdue(&self, now_ns: u64) -> Vec<(usize, String)> {
        let reason = |member: &RosterMember| {
            let (silent, since) = (now_ns.saturating_sub(member.heard_ns), member.since_ns);
            let limit = match member.stage {
                RosterStage::Lost(_) => return None,
                RosterStage::Delivered if !self.stays() => return None,
                _ if silent >= LOST_NS => {
                    return Some(format!("no sign of life for {} s", LOST_NS / 1_000_000_000));
                }
                RosterStage::Waiting
                | RosterStage::Ready
                | RosterStage::Finished
                | RosterStage::Delivered => return None,
                RosterStage::Starting => (SERVE_NS, "no far end"),
                RosterStage::Preparing => (READY_NS, "not ready"),
                RosterStage::Measuring => (WORK_NS, "not finished"),
                RosterStage::Delivering => (DELIVERY_NS, "its run not delivered"),
            };
            let is_late = now_ns.saturating_sub(since) >= limit.0;
            is_late.then(|| format!("{} within {} s", limit.1, limit.0 / 1_000_000_000))
        };
        let all = self.members.iter().enumerate();
        all.filter_map(|(at, member)| Some((at, reason(member)?))).collect()
    }

    /// What members are sent next. `absent`: how many of those expected cannot come.
    pub(crate) fn advance(&mut self, absent: usize, now_ns: u64) -> Vec<(usize, ToMember)> {
        let mut sent = Vec::new();
        let is_time_over = now_ns.saturating_sub(self.begun_ns) >= self.plan.join_ns;
        let is_complete = self.members.len() + absent >= self.plan.expected;
        if !self.has_begun && (is_complete || is_time_over) {
            self.begin();
        }
        if self.has_begun {
            self.next_round(now_ns);
            self.order(now_ns, &mut sent);
        }
        if self.plan.together && self.has_begun && self.start_ns.is_none() {
            self.start(now_ns, &mut sent);
        }
        let delivering = self.count(|it| it.stage == RosterStage::Delivering);
        let room = DELIVER_AT_ONCE.saturating_sub(delivering);
        let finished = self.members.iter_mut().enumerate();
        for (at, member) in finished.filter(|(_, it)| it.stage == RosterStage::Finished).take(room)
        {
            member.enter(RosterStage::Delivering, now_ns);
            sent.push((at, ToMember::Deliver));
        }
        sent
    }

    fn begin(&mut self) {
        self.has_begun = true;
        self.places = (0..self.members.len()).collect();
        // A stable sort: those without a rank as they joined.
        self.places.sort_by_key(|at| self.members[*at].joined.rank.unwrap_or(u32::MAX));
        self.rounds = (self.plan.rounds)(self.members.len()).max(1);
        self.name_clones();
    }

    fn next_round(&mut self, now_ns: u64) {
        if self.is_over() || !self.members.iter().all(RosterMember::is_over) {
            return;
        }
        self.round += 1;
        for member in self.members.iter_mut().filter(|it| !it.is_lost()) {
            member.enter(RosterStage::Waiting, now_ns);
            member.partner = None;
            member.progress = FleetProgress::default();
        }
    }

    /// Images and containers may share a machine-id: hosts of one id are distinguished by names.
    fn name_clones(&mut self) {
        let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
        let id = |host: &Host| host.identity().to_owned();
        for member in &self.members {
            *hosts.entry(id(&member.joined.host)).or_default() += 1;
        }
        let is_clone = |member: &&mut RosterMember| hosts[&id(&member.joined.host)] > 1;
        for member in self.members.iter_mut().filter(|it| it.stage == RosterStage::Waiting) {
            if is_clone(&member) && member.named_id.is_some() {
                member.by_name = true;
                member.joined.host.id.clone_from(&member.named_id);
            }
        }
    }

    /// Orders to those whose turn it is.
    fn order(&mut self, now_ns: u64, sent: &mut Vec<(usize, ToMember)>) {
        let most = if self.plan.together { usize::MAX } else { self.plan.at_once.max(1) };
        for (place, work) in self.work(most.saturating_sub(self.count(RosterMember::is_busy))) {
            let at = self.places[place];
            let stays = self.stays();
            let partner = match &work {
                Some(FleetWork::Pair(pair)) => {
                    self.members.iter().position(|it| it.joined.name == pair.name)
                }
                _ => None,
            };
            let member = &mut self.members[at];
            let together = self.plan.together;
            let stage = match &work {
                None | Some(FleetWork::Facts) => RosterStage::Delivered,
                Some(FleetWork::Serve) => RosterStage::Starting,
                Some(_) if together => RosterStage::Preparing,
                Some(_) => RosterStage::Measuring,
            };
            let is_idle = stage == RosterStage::Delivered;
            // If all are, the next round begins.
            self.has_changed |= is_idle;
            member.partner = partner;
            member.enter(stage, now_ns);
            match work.filter(|_| !is_idle) {
                Some(work) => {
                    let order = FleetOrder { work, by_name: member.by_name, together };
                    sent.push((at, ToMember::Order(Box::new(order))));
                }
                None if stays => {}
                None => sent.push((at, ToMember::End { reason: None })),
            }
        }
    }

    /// The work of those that wait, at most so many, by their places.
    fn work(&self, most: usize) -> Vec<(usize, Option<FleetWork>)> {
        let is_waiting =
            |place: &usize| self.members[self.places[*place]].stage == RosterStage::Waiting;
        let mut waiting = (0..self.places.len()).filter(is_waiting).take(most).peekable();
        if waiting.peek().is_none() {
            return Vec::new();
        }
        let present: Vec<_> = self.places.iter().map(|at| self.members[*at].present()).collect();
        let work = |place| (place, (self.plan.work)(self.round, place, &present));
        waiting.map(work).collect()
    }

    /// Compares the clocks when all are ready, then announces the start.
    fn start(&mut self, now_ns: u64, sent: &mut Vec<(usize, ToMember)>) {
        if self.count(|it| matches!(it.stage, RosterStage::Waiting | RosterStage::Preparing)) > 0 {
            return;
        }
        let is_comparing = |it: &RosterMember| {
            it.stage == RosterStage::Ready && (1..=EXCHANGES).contains(&it.exchanges)
        };
        let room = COMPARE_AT_ONCE.saturating_sub(self.count(is_comparing));
        let all = self.members.iter_mut().enumerate();
        for (at, member) in
            all.filter(|(_, it)| it.stage == RosterStage::Ready && it.exchanges == 0).take(room)
        {
            member.exchanges = 1;
            sent.extend(member.exchange(now_ns).map(|message| (at, message)));
        }
        let ready = self.count(|it| it.stage == RosterStage::Ready);
        if ready == 0
            || self.count(|it| it.stage == RosterStage::Ready && it.exchanges <= EXCHANGES) > 0
        {
            return;
        }
        let start_ns = now_ns + AHEAD_NS + AHEAD_EACH_NS * ready as u64;
        self.start_ns = Some(start_ns);
        for (at, member) in self.members.iter_mut().enumerate() {
            let offset = member.offset.filter(|_| member.stage == RosterStage::Ready);
            let Some(offset) = offset else { continue };
            member.enter(RosterStage::Measuring, now_ns);
            sent.push((at, ToMember::Start { at_ns: offset.at_member(start_ns) }));
        }
    }

    fn count(&self, is_counted: impl Fn(&RosterMember) -> bool) -> usize {
        self.members.iter().filter(|it| is_counted(it)).count()
    }

    /// Whether nothing more is to come.
    pub(crate) fn is_over(&self) -> bool {
        let is_last =
            self.round + 1 == self.rounds || self.members.iter().all(RosterMember::is_lost);
        self.has_begun && is_last && self.members.iter().all(RosterMember::is_over)
    }

    pub(crate) fn counts(&self) -> PlanCounts {
        let joined = self.members.len();
        let done: f64 = self.members.iter().map(RosterMember::done).sum();
        PlanCounts {
            joined,
            measuring: self.count(|it| it.is_busy()),
            delivered: self.count(|it| it.stage == RosterStage::Delivered),
            lost: self.count(|it| matches!(it.stage, RosterStage::Lost(_))),
            done: (self.round as f64 + done / joined.max(1) as f64) / self.rounds as f64,
            round: [self.round + usize::from(self.has_begun), self.rounds],
        }
    }

    pub(crate) fn ended(self) -> (Vec<Ended>, Vec<Failure>) {
        let mut members = self.members;
        members.sort_by_key(|it| it.joined.rank.unwrap_or(u32::MAX));
        let ended = |member: RosterMember| {
            let lost = match member.stage {
                RosterStage::Delivered => None,
                RosterStage::Lost(reason) => Some(reason),
                _ => Some("ended before it had delivered".to_owned()),
            };
            Ended { member: *member.joined, skew: member.skew, lost }
        };
        (members.into_iter().map(ended).collect(), self.failures)
    }
}

impl RosterMember {
    fn enter(&mut self, stage: RosterStage, now_ns: u64) {
        (self.stage, self.since_ns) = (stage, now_ns);
    }

    /// The next exchange of the clocks, if one is missing.
    fn exchange(&self, now_ns: u64) -> Option<ToMember> {
        (self.exchanges <= EXCHANGES).then_some(ToMember::Clock { sent_ns: now_ns })
    }
}

fn name_of(message: &ToCoordinator) -> &'static str {
    match message {
        ToCoordinator::Hello { .. } => "hello",
        ToCoordinator::Proof { .. } => "proof",
        ToCoordinator::Join(_) => "join",
        ToCoordinator::Alive { .. } => "alive",
        ToCoordinator::Ready => "ready",
        ToCoordinator::Stamps { .. } => "stamps",
        ToCoordinator::Started { .. } => "started",
        ToCoordinator::Serving { .. } => "serving",
        ToCoordinator::Finished => "finished",
        ToCoordinator::Document { .. } => "document",
        ToCoordinator::Failed { .. } => "failed",
    }
}
