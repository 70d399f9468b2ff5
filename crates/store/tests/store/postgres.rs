//! The store in a database of a real server: the tests of both, and what only a server can do.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::rc::Rc;

use fathom_lab::postgres::LabPostgres;
use fathom_record::RunState;
use fathom_store::{OLDEST, Place, Store, StoreError, Taken, VERSION};

use crate::children::skipped;
use crate::{cases, example, names, older, round_trip, writers};

thread_local! {
    /// The server of [`on_server`], and how many databases it has.
    static SERVER: RefCell<Option<(Rc<LabPostgres>, u32)>> = const { RefCell::new(None) };
}

/// A new database, within [`on_server`].
pub(crate) fn new_database() -> Option<Place> {
    SERVER.with_borrow_mut(|server| {
        let (server, count) = server.as_mut()?;
        *count += 1;
        Some(place(&server.new_database(&format!("d{count}")).unwrap()))
    })
}

pub(crate) fn place(address: &str) -> Place {
    Place::parse(OsStr::new(address)).unwrap()
}

fn server() -> Option<LabPostgres> {
    LabPostgres::start(None).map_err(|why| skipped(&why.to_string())).ok()
}

/// What a test of both kinds of store needs.
fn on_server(server: Rc<LabPostgres>, test: impl FnOnce()) {
    SERVER.set(Some((server, 0)));
    test();
    SERVER.set(None);
}

/// Each with a database of its own. The server is started once, since each test of this program
/// has a process of its own.
const TESTS: &[(&str, fn())] = {
    macro_rules! tests {
        ($($module:ident: $($name:ident)*;)*) => {
            &[$($((stringify!($name), $module::$name as fn())),*),*]
        };
    }
    tests! {
        names: run_is_found_by_id_prefix_and_latest run_without_numbers_is_not_the_latest
            ambiguous_prefix_lists_the_runs unknown_run_message_counts_the_runs
            malformed_name_differs_from_unknown_run label_names_its_run_unless_ambiguous
            latest_is_the_last_complete_run_of_its_kind_and_host
            latest_is_of_any_kind_without_a_battery;
        cases: newest_record_of_each_case_is_found samples_are_freed_before_runs
            last_run_of_each_command_and_last_number_of_each_case_are_kept
            metrics_of_a_group_are_listed_once run_begun_after_the_list_is_not_pruned;
        round_trip: run_is_read_back_bit_by_bit samples_are_read_only_on_request
            replace_records_leaves_other_runs_unchanged update_run_keeps_tool_host_and_records
            runs_are_listed_newest_first_with_their_counts duplicate_record_or_run_is_refused
            infinite_number_or_open_record_is_not_stored run_that_was_not_begun_gets_no_records
            outline_has_the_headlines_of_its_run newest_runs_are_of_one_command
            newest_runs_are_found_by_host_id id_of_an_earlier_version_is_mapped
            put_replaces_the_same_case_only;
        older: golden_document_survives_the_store;
        writers: fifty_writers_store_each_record_once
            prune_while_others_write_deletes_what_it_listed_only;
        tests: hostile_text_is_stored text_is_in_the_order_of_its_bytes
            damaged_row_is_named reader_writes_nothing other_version_is_refused
            schema_of_another_program_is_refused role_without_rights_is_refused
            other_encoding_is_refused run_of_another_machine_is_unknown size_is_counted;
    }
};

#[test]
fn database_passes_the_tests_of_a_file() {
    let Some(server) = server() else { return };
    let server = Rc::new(server);
    on_server(server, || {
        for (name, test) in TESTS {
            crate::children::say(name);
            test();
        }
    });
}

mod tests {
    use super::*;

    /// Executes statements in the newest database.
    fn sql(statements: &str) -> String {
        SERVER.with_borrow(|server| {
            let (server, count) = server.as_ref().unwrap();
            server.sql(&format!("d{count}"), statements).unwrap()
        })
    }

    const RUN: &str = "0000019514ab3c5d";

    pub(crate) fn hostile_text_is_stored() {
        let (_folder, _place, mut store) = example::stored(RUN, 0);
        let mut document = example::head("00000000000000aa");
        document.run.label = Some("a\0b'; DROP TABLE run; -- \\ é \u{1f600}".to_owned());
        document.host.name = "%s $1 ?1".to_owned();
        document.records = example::records(1);
        store.import(&document).unwrap();
        assert_eq!(store.document(&document.run.id, true).unwrap(), document);
        let label = document.run.label.as_deref().unwrap();
        assert_eq!(store.labelled(label).unwrap(), [document.run.id]);
        assert_eq!(store.runs().unwrap()[0].host_name, "%s $1 ?1");
    }

    /// In the order of a language `A` is beside `a`.
    pub(crate) fn text_is_in_the_order_of_its_bytes() {
        let collation = "LOCALE_PROVIDER icu ICU_LOCALE 'en' TEMPLATE template0";
        let created = SERVER.with_borrow(|server| {
            let (server, _) = server.as_ref().unwrap();
            let created = server.sql("postgres", &format!("CREATE DATABASE icu {collation}"));
            created.map(|_| place(&server.address("icu")))
        });
        let mut store = match created {
            Ok(place) => Store::open(&place).unwrap(),
            Err(error) => return skipped(&format!("the order of a language: {error}")),
        };
        let mut document = example::head(RUN);
        let ids = ["bench.a", "bench.B", "bench.A", "bench.b"];
        document.records = (0..).zip(ids).map(|(number, id)| cases::own(number, id)).collect();
        store.import(&document).unwrap();
        let sorted = ["bench.A", "bench.B", "bench.a", "bench.b"];
        assert_eq!(store.metrics_of("bench").unwrap(), sorted);
    }

    pub(crate) fn other_encoding_is_refused() {
        let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
        let place = SERVER.with_borrow(|server| {
            let (server, _) = server.as_ref().unwrap();
            server.sql("postgres", create).unwrap();
            place(&server.address("latin"))
        });
        let opened = [Store::open(&place), Store::open_existing(&place)].map(|it| it.map(drop));
        for refused in opened.into_iter().chain([Store::examine(&place)]) {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::Encoding { .. }), "{error}");
            assert!(error.to_string().ends_with("encoding LATIN1, and a store needs UTF8"));
        }
    }

    pub(crate) fn damaged_row_is_named() {
        let (_folder, place, store) = example::stored(RUN, 3);
        let row = &store.runs().unwrap()[0];
        let clean = store.check(row).unwrap();
        assert_eq!((clean.records, clean.damage.len()), (3, 0), "{:?}", clean.damage);
        let change = "replace(body, '\"n\":600', '\"n\":601')";
        sql(&format!("UPDATE fathom.record SET body = {change} WHERE number = 2"));
        sql("
             UPDATE fathom.samples SET crc = 1 WHERE record = 3;
             UPDATE fathom.headline SET value = value + 1 WHERE record = 1");
        let store = Store::open_existing(&place).unwrap();
        let checked = store.check(row).unwrap();
        let damage: Vec<String> = checked.damage.iter().map(ToString::to_string).collect();
        assert_eq!((checked.records, damage.len()), (1, 3), "{damage:?}");
        let error = store.document(RUN, false).unwrap_err();
        assert!(error.to_string().contains("block=1,mode=cold} is damaged"), "{error}");
    }

    pub(crate) fn reader_writes_nothing() {
        let (_folder, place, store) = example::stored(RUN, 1);
        drop(store);
        let mut reader = Store::open_existing(&place).unwrap();
        let error = example::add(&mut reader, RUN, &example::record(1)).unwrap_err();
        assert!(error.to_string().contains("read-only"), "{error}");
        assert_eq!(reader.document(RUN, true).unwrap().records.len(), 1, "it still reads");
    }

    pub(crate) fn other_version_is_refused() {
        let (_folder, place, store) = example::stored(RUN, 1);
        drop(store);
        for found in [OLDEST, VERSION + 1] {
            sql(&format!("UPDATE fathom.store SET version = {found}"));
            let opened = [Store::open(&place), Store::open_existing(&place)].map(|it| it.map(drop));
            for refused in opened.into_iter().chain([Store::examine(&place)]) {
                let error = refused.unwrap_err();
                let is_named =
                    matches!(error, StoreError::OtherVersion { found: it, .. } if it == found);
                assert!(is_named, "version {found}: {error}");
            }
        }
    }

    pub(crate) fn schema_of_another_program_is_refused() {
        let place = new_database().unwrap();
        let missing = Store::open_existing(&place).unwrap_err();
        assert!(matches!(missing, StoreError::Missing { .. }), "{missing}");
        Store::examine(&place).unwrap();
        let tables = "SELECT count(*) FROM pg_class c JOIN pg_namespace n
            ON n.oid = c.relnamespace WHERE n.nspname = 'fathom'";
        assert_eq!(sql(tables), "0", "nothing is created by looking");
        sql("CREATE SCHEMA fathom; CREATE TABLE fathom.contacts (name text)");
        for opened in [Store::open(&place), Store::open_existing(&place)] {
            let error = opened.unwrap_err();
            assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
        }
        assert_eq!(sql(tables), "1", "the schema of the other program was changed");
    }

    /// A role that reads, one that writes, and one that may do neither.
    pub(crate) fn role_without_rights_is_refused() {
        let (_folder, place, store) = example::stored(RUN, 1);
        drop(store);
        sql("CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE ROLE nobody LOGIN;
             GRANT USAGE ON SCHEMA fathom TO reader, writer;
             GRANT SELECT ON ALL TABLES IN SCHEMA fathom TO reader, writer;
             GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fathom TO writer");
        let of = |role: &str| {
            super::place(
                &place.to_string().replace("postgres://fathom@", &format!("postgres://{role}@")),
            )
        };
        let mut writer = Store::open(of("writer")).unwrap();
        example::add(&mut writer, RUN, &example::record(1)).unwrap();
        let reader = Store::open_existing(of("reader")).unwrap();
        assert_eq!(reader.document(RUN, true).unwrap().records.len(), 2);
        // What each is refused for is what lets it write.
        let admin = ["reader", "nobody"].map(|role| (role, of(role)));
        let fresh = new_database().unwrap().to_string().replace("://fathom@", "://nobody@");
        for (role, place) in admin.into_iter().chain([("nobody", super::place(&fresh))]) {
            let opened = [Store::open(&place).map(drop), Store::examine(&place)];
            let grants = opened.map(|refused| match refused.unwrap_err() {
                StoreError::Rights { grant, .. } => grant,
                error => panic!("{role}: {error}"),
            });
            assert!(grants[0] == grants[1] && grants[0].ends_with(role), "{grants:?}");
            SERVER.with_borrow(|server| {
                let database = place.to_string();
                let name = database.rsplit('/').next().unwrap().split('?').next().unwrap();
                server.as_ref().unwrap().0.sql(name, &grants[0]).unwrap()
            });
            let mut store = Store::open(&place).unwrap();
            let id = if role == "reader" { "00000000000000a1" } else { "00000000000000a2" };
            store.import(&example::head(id)).unwrap();
        }
    }

    pub(crate) fn run_of_another_machine_is_unknown() {
        let (_folder, place, store) = example::stored(RUN, 1);
        assert_eq!(store.runs().unwrap()[0].state, RunState::Running, "of this process");
        sql("UPDATE fathom.run SET boot_id = 'of another machine'");
        let store = Store::open_existing(&place).unwrap();
        assert_eq!(store.runs().unwrap()[0].state, RunState::Unknown);
        assert_eq!(store.document(RUN, false).unwrap().run.state, RunState::Unknown);
        let all = fathom_store::Keep::Newest(0);
        assert_eq!(store.old_runs(&all).unwrap(), [], "it is never pruned");
    }

    pub(crate) fn size_is_counted() {
        let (_folder, _place, mut store) = example::stored(RUN, 1);
        assert_eq!(store.prune(&[], false).unwrap(), 0);
        assert_eq!(store.damage().unwrap(), [""; 0]);
    }
}

/// Runs are taken in both directions, and every step can be repeated.
#[test]
fn runs_are_copied_between_file_and_database() {
    let Some(server) = server() else { return };
    let address = server.new_database("copies").unwrap();
    let mut database = Store::open(place(&address)).unwrap();
    let (_folder, path, mut file) = example::store_with("00000000000000b1", 3);
    let id = "00000000000000b1";
    let (taken, state) = database.take(&file, id).unwrap();
    assert_eq!((taken, state), (Taken::New, RunState::Running));
    assert_eq!(database.runs().unwrap()[0].state, RunState::Running, "by the same process");
    example::add(&mut file, id, &example::record(3)).unwrap();
    assert_eq!(database.take(&file, id).unwrap().0, Taken::Renewed);
    let mut run = example::run(id);
    run.state = RunState::Complete;
    run.label = Some("whole".to_owned());
    file.update_run(&run).unwrap();
    let ended = (Taken::Renewed, RunState::Complete);
    assert_eq!(database.take(&file, id).unwrap(), ended);
    assert_eq!(database.take(&file, id).unwrap().0, Taken::Known);
    let whole = file.document(id, true).unwrap();
    assert_eq!(database.document(id, true).unwrap(), whole);
    assert_eq!(database.labelled("whole").unwrap(), [id]);
    assert_eq!(example::history(&database), example::history(&file));
    // An earlier state never replaces the end.
    let (_other_folder, _, early) = example::store_with(id, 1);
    assert_eq!(database.take(&early, id).unwrap().0, Taken::Known);
    assert_eq!(database.document(id, true).unwrap(), whole);

    let (_back_folder, back_path) = example::new_path();
    let mut back = Store::open(&back_path).unwrap();
    assert_eq!(back.take(&database, id).unwrap().0, Taken::New);
    assert_eq!(back.document(id, true).unwrap(), whole);
    file.delete(id).unwrap();
    assert_eq!(file.runs().unwrap(), []);
    drop((file, back));
    example::is_whole(&path);
    example::is_whole(&back_path);
}

#[test]
fn damaged_record_is_not_taken() {
    let (_folder, path, store) = example::store_with("00000000000000b1", 2);
    drop(store);
    let sql = "UPDATE record SET body = replace(body, '\"n\":600', '\"n\":601') WHERE number = 2";
    rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
    let store = Store::open_existing(&path).unwrap();
    let (_to_folder, to) = example::new_path();
    let mut to = Store::open(&to).unwrap();
    let error = to.take(&store, "00000000000000b1").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(to.runs().unwrap(), []);
}

/// A connection is cut, and the server crashes, while a run is written. What was acknowledged is
/// there, once.
#[test]
fn lost_connection_loses_nothing_acknowledged() {
    let Some(mut server) = server() else { return };
    let place = place(&server.new_database("losses").unwrap());
    let ids = ["00000000000000b1", "00000000000000b2"];
    let mut store = Store::open(&place).unwrap();
    let mut lost = 0;
    for id in ids {
        store.begin(&example::head(id)).unwrap();
        for number in 0..12 {
            if number % 5 == 2 {
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = 'losses' AND pid <> pg_backend_pid()";
                server.sql("postgres", all).unwrap();
            } else if number == 9 {
                server.crash();
                let error = Store::open(&place).unwrap_err();
                assert!(matches!(error, StoreError::Server { .. }), "{error}");
                server.restart().unwrap();
            }
            if let Err(error) = example::add(&mut store, id, &example::record(number)) {
                assert!(matches!(error, StoreError::Server { .. }), "{error}");
                lost += 1;
                store = Store::open(&place).unwrap();
                example::add(&mut store, id, &example::record(number)).unwrap();
            }
        }
    }
    assert_eq!(lost, 2 * 3, "each cut was noticed");
    for id in ids {
        assert_eq!(store.document(id, true).unwrap().records, example::records(12));
    }
    assert_eq!(example::history(&store).len(), 2);
}

/// The connection is cut at any moment of a transaction, also of its commit.
#[test]
fn cut_transaction_is_whole_or_nothing() {
    const CUTS: usize = 40;
    let Some(server) = server() else { return };
    let place = place(&server.new_database("cuts").unwrap());
    let id = "00000000000000b1";
    let mut store = Store::open(&place).unwrap();
    store.begin(&example::head(id)).unwrap();
    let mut written = 0;
    std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = 'cuts' AND pid <> pg_backend_pid()";
            for _ in 0..CUTS {
                server.sql("postgres", all).unwrap();
            }
        });
        while !cutter.is_finished() {
            // mood: a new try can be cut, too; there is an end to the cuts
            while example::add(&mut store, id, &example::record(written)).is_err() {
                while let Err(error) = Store::open(&place).map(|new| store = new) {
                    assert!(matches!(error, StoreError::Server { .. }), "{error}");
                }
            }
            written += 1;
        }
    });
    let store = Store::open(&place).unwrap();
    assert!(written > 0);
    assert_eq!(store.document(id, true).unwrap().records, example::records(written));
    let row = &store.runs().unwrap()[0];
    assert_eq!(store.check(row).unwrap().damage.len(), 0);
}

/// TLS with and without verification, and passwords.
#[test]
fn login_needs_its_password_and_tls_its_certificate() {
    let certificate = fathom_testing::Certificate::of_names(&["localhost"]);
    let server = LabPostgres::start(Some([&certificate.issuer_pem, &certificate.key_pem]));
    let server = match server {
        Ok(server) => server,
        Err(why) => return skipped(&why.to_string()),
    };
    server.new_database("team").unwrap();
    server
        .sql(
            "team",
            "CREATE ROLE ada LOGIN PASSWORD 's3cret'; GRANT CREATE ON DATABASE team TO ada",
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, &certificate.issuer_pem).unwrap();
    let of = |password: &str, host: &str, options: &str| {
        let port = server.port();
        Store::examine(place(&format!("postgres://ada:{password}@{host}:{port}/team?{options}")))
    };
    let full = format!("sslmode=verify-full&sslrootcert={}", roots.display());
    for (host, options) in
        [("127.0.0.1", "sslmode=require"), ("localhost", "sslmode=prefer"), ("localhost", &full)]
    {
        of("s3cret", host, options).unwrap();
    }
    let refused = |password, host, options, reason: &str| {
        let error = of(password, host, options).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("s3cret") && !error.contains("wr0ng"), "{error}");
    };
    refused("wr0ng", "127.0.0.1", "sslmode=require", "password authentication failed");
    refused("s3cret", "127.0.0.1", "sslmode=disable", "no encryption");
    refused("s3cret", "127.0.0.1", &full, "certificate");
    refused("s3cret", "localhost", "sslmode=verify-full", "certificate");
}
