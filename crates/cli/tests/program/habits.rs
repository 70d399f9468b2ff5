//! What the fingers know from hyperfine, wrk, hey, oha, ab and k6: it means the same here, or ends
//! with one line that names the right option, before anything is sent.

use std::fs;
use std::net::TcpListener;

use crate::test_env::{ProgramTestEnv, assert_contains, assert_message, assert_status, text};

#[test]
fn options_of_hyperfine_mean_what_they_mean_there() {
    let env = ProgramTestEnv::new();
    let [setup, prepare, conclude, cleanup] =
        ["setup", "prepare", "conclude", "cleanup"].map(|word| format!("echo {word} >> log"));
    let command = "sh -c 'echo run {n} >> log; exit 3'";
    let counts = ["-w", "1", "-r", "2", "-N", "-i", "-L", "n", "a"];
    let hooks = ["-s", &setup, "-p", &prepare, "-C", &conclude, "-c", &cleanup];
    let output = env.run(&[&["bench", command][..], &counts, &hooks].concat());
    assert_status(&output, 0);
    let each = "prepare\nrun a\nconclude\n";
    let log = fs::read_to_string(env.file("log")).unwrap();
    assert_eq!(log, format!("setup\n{each}{each}{each}cleanup\n"), "a warm-up and two runs");
    let shelled = env.run(&["bench", "-S", "sh", "-r", "1", "echo $0 > shelled"]);
    assert_status(&shelled, 0);
    assert_eq!(fs::read_to_string(env.file("shelled")).unwrap(), "sh\n");
    fs::write(env.file("b.toml"), "[[command]]\nrun = \"echo $0\"\n[settings]\nshell = \"sh\"\n")
        .unwrap();
    let refused = env.exec("bench -f b.toml --no-shell");
    assert_message(&refused, 2, &["$ is shell syntax"]);
    for (line, list) in [("1 4", "1,2,3,4"), ("1 64", "1,2,3,4,…,64")] {
        let output = env.exec(&format!("bench -P n {line} true"));
        assert_message(&output, 2, &[&format!("`-P n {list}`"), "which doubles"]);
    }
    assert_message(&env.exec("bench -m 10 true"), 2, &["'-m' is of other tools", "`--runs N`"]);
}

#[test]
fn no_habit_writes_to_a_server() {
    let env = ProgramTestEnv::new();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", server.local_addr().unwrap());
    for (line, part) in [
        ("-t 2 -c 4 -d 3s", "the duration is --time 3s (-z), the threads --threads N"),
        ("-t2 -c4 -d3s", "--time 3s (-z)"),
        ("-c 4 -d 10", "--time 10 (-z)"),
        ("-d 1m30s", "--time 90s (-z)"),
        ("-duration=5s", "--time 5s (-z)"),
        ("-disable-keepalive", "two dashes"),
        ("-d 3s -T 5s", "a media type"),
        ("-X POST -d a=b", "`--method METHOD` (-m)"),
        ("-p body.json -T application/json", "`--data-file FILE`"),
        ("-D 3s -t 2", "`--time TIME` (-z)"),
        ("--rps 10 -d 30s", "`--rate N`"),
    ] {
        let output = env.exec(&format!("load {url} {line}"));
        assert_status(&output, 2);
        let message = text(&output.stderr);
        assert_contains(&message, &[part]);
        assert_eq!(message.lines().count(), 1, "{message}");
        let sent = server.accept().map(|_| line).map_err(|error| error.kind());
        assert_eq!(sent, Err(std::io::ErrorKind::WouldBlock));
    }
    // What is meant is sent.
    let output = env.exec(&format!("load {url} -d 3s -m POST -t 200ms -n 1"));
    assert_status(&output, 1);
    assert!(server.accept().is_ok());
}
