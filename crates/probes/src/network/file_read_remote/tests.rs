use fathom_record::FactValue;

use super::*;
use crate::smoke;

fn of_effort(effort: Effort) -> Vec<ProbeCase> {
    FileReadRemote.cases(&Host::default(), &effort.into())
}

#[test]
fn blocks_are_read_in_every_state() {
    let Some(_folder) = smoke::test_folder() else { return };
    let mut measured = 0;
    for (case, sample) in smoke::run(&FileReadRemote) {
        let Ok(sample) = sample else { continue };
        measured += 1;
        let texts: Vec<&str> = sample.checks.iter().map(|check| check.detail.as_str()).collect();
        let state =
            if RemoteFile::from_params(&case.params).unwrap().is_cold { "COLD" } else { "WARM" };
        assert!(texts.iter().any(|text| text.starts_with(state)), "{texts:?}");
        let names: Vec<&str> = sample.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert!(names.contains(&"in round trips") && names.contains(&"MSS"), "{names:?}");
        assert!(!sample.histogram.unwrap().is_empty());
    }
    assert!(measured > 0 || affinity::allowed().len() == 1, "a loopback interface");
}

#[test]
fn bytes_from_devices_prove_the_servers_cache() {
    let passed = |is_cold, fetched| {
        let remote = RemoteFile { is_cold, ..all(Effort::Quick).remove(0) };
        smoke::checks(|sampler| prove(0, &remote, fetched, (3, 10), sampler))[0].passed
    };
    assert!(passed(true, Some(3 * BLOCK)) && !passed(true, Some(3 * BLOCK - 1)));
    assert!(
        passed(false, Some(BLOCK)) && !passed(false, Some(BLOCK + 1)),
        "a tenth of what was sent"
    );
    assert_eq!([true, false].map(|is_cold| passed(is_cold, None)), [true, false], "unknown");
}

/// A service on this host.
fn opened(served: &Served, sampler: &mut Sampler) -> Option<Service> {
    let place = sampler.resources().far_end(LOOPBACK).unwrap();
    let service = Service::open(&place, served, sampler);
    service.map_err(|fault| smoke::skipped(&fault.to_string())).ok()
}

#[test]
fn other_content_or_a_missing_file_is_no_result() {
    let Some(_folder) = smoke::test_folder() else { return };
    let mut sampler = smoke::sampler(1, affinity::allowed()[0]);
    let remote = all(Effort::Quick).remove(0);
    let served = Served::new(&sampler).unwrap();
    let Some(service) = opened(&served, &mut sampler) else { return };
    let mut control = service.control();
    let fault = path(&service, &mut control, &remote).unwrap_err();
    let remedy = Some(Remedy::ServeFile { bytes: 512 << 10 });
    let text = "loopback serves no file of 524288 bytes".to_owned();
    assert_eq!(fault, SamplerFault::Unavailable(text, remedy));
    std::fs::write(served.path().join("other"), vec![7; 512 << 10]).unwrap();
    let path = path(&service, &mut control, &remote).unwrap();
    assert_eq!(path, "/other");
    let stream = service.connect().unwrap();
    let mut reading = RemoteReading {
        service: &service,
        control: &mut control,
        remote: &remote,
        path,
        seed: None,
        stream: &stream,
        random: Xoshiro256PlusPlus::seed_from_u64(1),
        buffer: Vec::new(),
        passes_ns: Vec::new(),
        blocks: 0,
    };
    assert!(reading.block(4096, &smoke::clock()).is_ok());
    assert!(reading.trip_ns(&smoke::clock()).is_ok());
    reading.seed = Some(SEED);
    let fault = reading.block(4096, &smoke::clock()).unwrap_err();
    assert!(matches!(fault, SamplerFault::WrongWork(text) if text.contains("byte 4096 differs")));
    // Beyond the end: 416.
    let fault = reading.block(1 << 20, &smoke::clock()).unwrap_err();
    assert!(matches!(fault, SamplerFault::WrongWork(text) if text == "status 416, not 206"));
    drop((stream, control, service));
    assert!(smoke::has_no_children());
}

/// Of a file that the server does not have cached.
#[test]
fn bytes_read_to_warm_the_server_do_not_count() {
    let Some(_folder) = smoke::test_folder() else { return };
    let mut sampler = smoke::sampler(1, affinity::allowed()[0]);
    let served = Served::new(&sampler).unwrap();
    let bytes = 512_u64 << 10;
    let file = write_synced(served.path(), bytes, SEED).unwrap();
    file.publish(&served.path().join("file"), false).unwrap();
    let Some(service) = opened(&served, &mut sampler) else { return };
    let mut control = service.control();
    if let Err(fault) = change(&service, &mut control, "evict") {
        return smoke::skipped(&fault.to_string());
    }
    let remote = all(Effort::Quick).remove(0);
    let read = |telemetry: fathom_load::LoadTelemetry| telemetry.read_bytes.unwrap_or(0);
    let cold = read(telemetry(&service, &mut control).unwrap());
    // Reclaim may take pages at once.
    let Ok(warm) = begin(&service, &mut control, &remote) else { return };
    assert!(read(warm) >= cold + bytes, "warming is over");
}

#[test]
fn blocks_of_a_pass_are_distinct() {
    let order = |bytes, is_random| {
        let remote = RemoteFile { bytes, is_random, ..all(Effort::Quick).remove(0) };
        choose(&mut Xoshiro256PlusPlus::seed_from_u64(5), &remote)
    };
    assert_eq!(order(4096, false), [0]);
    let (sequential, random) = (order(512 << 10, false), order(512 << 10, true));
    assert!(sequential.windows(2).all(|pair| pair[1] == pair[0] + 4096));
    let mut sorted = random.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert!(sorted.len() == 16 && sorted != random && sorted[15] < 512 << 10);
}

/// The cases of a mount.
fn of_mount(effort: Effort) -> Vec<ProbeCase> {
    let sizes = Sizes { mount: true, ..effort.into() };
    let mut cases = FileReadRemote.cases(&Host::default(), &sizes);
    assert_eq!(cases[..of_effort(effort).len()], of_effort(effort));
    cases.drain(..of_effort(effort).len());
    cases
}

#[test]
fn mount_is_read_in_proved_states_and_named() {
    let Some(_folder) = smoke::test_folder() else { return };
    for case in of_mount(Effort::Quick) {
        let client = case.params.text("client").unwrap();
        let sample = smoke::visit(&FileReadRemote, std::slice::from_ref(&case)).remove(0);
        // Reclaim may have taken pages.
        let Ok(sample) = sample else { continue };
        let proof = sample.checks.iter().find(|check| check.name == "in memory").unwrap();
        assert!(proof.detail.starts_with(&client.to_uppercase()), "{proof:?}");
        assert!(sample.checks.iter().any(|check| check.name == "content" && check.passed));
        let fact = sample.facts.iter().find(|fact| fact.name == "mount").unwrap();
        let FactValue::Text { text } = &fact.value else { panic!("{fact:?}") };
        assert!(text.contains(", source "), "{text}");
    }
}
