//! Asleep, warm, sick: and never woken or kept awake by the question.

use crate::topology::ask::Unprivileged;
use std::sync::Arc;
use std::time::Duration;

use spindle_base::clock::{Clock as _, ManualClock};
use spindle_base::sync::Mutex;

use super::*;
use crate::sys::power::Power;
use crate::sys::smart::Smart;
use crate::topology::figures::{AskDisk, Questions, Watched, ask, look_once};
use crate::topology::sysfs::DiskCounters;

const S: u64 = 1_000_000;

/// Notes what it was asked.
struct Fake {
    power: Result<Power, String>,
    asked: Mutex<Vec<String>, 90>,
}

impl Fake {
    fn new(power: Result<Power, String>) -> Arc<Self> {
        Arc::new(Self { power, asked: Mutex::new(Vec::new()) })
    }
}

impl AskDisk for Fake {
    fn power(&self, (major, minor): (u32, u32)) -> Result<Power, String> {
        self.asked.lock().push(format!("power {major}:{minor}"));
        self.power.clone()
    }
    fn smart(&self, (major, minor): (u32, u32)) -> Result<Smart, String> {
        self.asked.lock().push(format!("smart {major}:{minor}"));
        Ok(Smart { temperature_c: Some(38), is_healthy: Some(true), ..Smart::default() })
    }
}

fn counters(reads: u64) -> Option<DiskCounters> {
    Some(DiskCounters { reads, read_bytes: reads * 4096, busy_ms: reads, ..DiskCounters::default() })
}

fn disk() -> (Machine, std::path::PathBuf) {
    let m = Machine::new(
        "sata sda 8:0 WD SN\n device/hwmon/hwmon2/name=drivetemp\n device/hwmon/hwmon2/temp1_input=36000\n",
    );
    let dir = m.roots.sysfs().by_name("sda").unwrap();
    (m, dir)
}

#[test]
fn a_disk_that_moves_is_awake_and_may_be_read_and_one_that_rests_is_only_asked_for_its_power_mode() {
    let (_m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    w.sample(counters(1), false, 0);
    // Nothing is known yet: its mode may be asked, nothing that could wake it.
    assert_eq!(w.questions(0), Questions { power: true, ..Questions::default() });
    assert_eq!(w.asleep(0), (None, None));
    w.sample(counters(2), false, S);
    assert_eq!(w.asleep(S), (Some(false), Some("recent_io")));
    assert_eq!(w.questions(S), Questions { power: false, temperature: true, smart: true });
    let figures = w.figures(S);
    assert_eq!((figures.rate.reads_per_s, figures.rate.read_bytes_per_s, figures.quiet_s), (1.0, 4096.0, 0));
    // A minute later it is quiet again.
    w.sample(counters(2), false, 70 * S);
    assert_eq!(w.questions(70 * S), Questions { power: true, ..Questions::default() });
}

#[test]
fn by_silence_alone_a_disk_is_probably_asleep_and_named_so() {
    let (_m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    w.sample(counters(1), false, 0);
    w.answered(
        Questions { power: true, ..Questions::default() },
        figures::Answers { power: Some(Err("takes CAP_SYS_RAWIO".into())), ..Default::default() },
        0,
    );
    w.sample(counters(1), false, 1800 * S);
    assert_eq!(w.asleep(1800 * S), (None, None));
    w.sample(counters(1), false, 1861 * S);
    assert_eq!(w.asleep(1861 * S), (Some(true), Some("probably")));
    assert_eq!(w.figures(1861 * S).quiet_s, 1861);
    // A refusal is not repeated every minute.
    assert_eq!(w.questions(500 * S), Questions::default());
    assert!(w.questions(601 * S).power);
    w.sample(counters(9), false, 1862 * S);
    assert_eq!(w.asleep(1862 * S), (Some(false), Some("recent_io")));
}

#[test]
fn the_answer_of_the_disk_outranks_silence_and_grows_old() {
    let (_m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    w.sample(counters(1), false, 0);
    let wanted = w.questions(0);
    let fake = Fake::new(Ok(Power::Standby));
    w.answered(wanted, ask(&dir, fake.as_ref(), wanted), 0);
    assert_eq!(fake.asked.lock().as_slice(), ["power 8:0"]);
    assert_eq!(w.asleep(59 * S), (Some(true), Some("power_mode")));
    assert_eq!(w.questions(59 * S), Questions::default());
    assert!(w.questions(60 * S).power);
    assert_eq!(w.asleep(200 * S), (None, None), "an answer that old is none");
}

#[test]
fn a_suspended_device_is_asleep_and_not_asked_at_all() {
    let (_m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    w.sample(counters(1), true, 0);
    assert_eq!((w.asleep(0), w.questions(0)), ((Some(true), Some("runtime_pm")), Questions::default()));
}

#[test]
fn a_value_stays_with_its_age_when_the_disk_falls_asleep() {
    let (_m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    w.sample(counters(1), false, 0);
    w.sample(counters(2), false, S);
    let wanted = w.questions(S);
    w.answered(wanted, ask(&dir, Fake::new(Ok(Power::Active)).as_ref(), wanted), S);
    let f = w.figures(301 * S);
    assert_eq!(
        (f.temperature_c, f.temperature_age_s, f.health.as_deref()),
        (Some(36), Some(300), Some("ok"))
    );
}

#[test]
fn a_command_reads_a_disk_that_is_awake_and_leaves_one_that_sleeps_or_may_sleep() {
    let (m, _) = disk();
    let look = |power: Result<Power, String>| {
        let fake = Fake::new(power);
        let asker: Arc<dyn AskDisk> = Arc::clone(&fake) as Arc<dyn AskDisk>;
        let mut node = m.of_device("8:0").node;
        look_once(&m.roots.sysfs(), &mut node, &asker);
        let asked = fake.asked.lock().clone();
        (node.disk.asleep, node.disk.temperature_c, node.disk.health.unwrap(), asked)
    };
    assert_eq!(
        look(Ok(Power::Idle)),
        (Some(false), Some(36), "ok".into(), vec!["power 8:0".to_owned(), "smart 8:0".to_owned()])
    );
    assert_eq!(look(Ok(Power::Standby)), (Some(true), None, "unknown".into(), vec!["power 8:0".to_owned()]));
    assert_eq!(look(Err("no".into())), (None, None, "unknown".into(), vec!["power 8:0".to_owned()]));
}

#[test]
fn a_solid_state_disk_is_read_at_any_time_and_is_never_asleep() {
    let m = Machine::new(
        "nvme nvme0n1 259:0 Samsung SN\n device/hwmon1/name=nvme\n device/hwmon1/temp1_input=78850\n",
    );
    let fake = Fake::new(Ok(Power::Standby));
    let asker: Arc<dyn AskDisk> = Arc::clone(&fake) as Arc<dyn AskDisk>;
    let top = m.of_device("259:0");
    let mut node = top.node;
    look_once(&m.roots.sysfs(), &mut node, &asker);
    assert_eq!((node.disk.asleep, node.disk.temperature_c), (None, Some(78)));
    let top = finish(&top.path, top.filesystem, node);
    assert_eq!(codes(&top), ["disk_hot"]);
}

#[test]
fn a_failing_disk_is_advised_on_by_name() {
    let (m, dir) = disk();
    let mut w = Watched::new(&dir, 0);
    let sick =
        Smart { is_healthy: Some(false), notes: vec!["8 uncorrectable sectors".into()], ..Smart::default() };
    w.answered(Questions::default(), figures::Answers { smart: Some(Ok(sick)), ..Default::default() }, 0);
    let top = m.of_device("8:0");
    let mut node = top.node;
    w.add_to(&mut node.disk, 0);
    let top = finish(&top.path, top.filesystem, node);
    assert_eq!(codes(&top), ["disk_failing"]);
    assert!(
        top.advice[0].text.contains("sda (WD)") && top.advice[0].text.contains("8 uncorrectable"),
        "{:?}",
        top.advice
    );
}

#[test]
fn somebody_who_does_not_own_the_machine_sees_no_places_names_or_serial_numbers() {
    let m = Machine::new(
        "sata sda 8:0 M SECRETSERIAL
         loop loop3 7:3
           loop/backing_file=/secretplace/disk.img
         %file proc/self/mountinfo
           1 0 8:0 / /secretplace rw - xfs /dev/sda rw
           2 1 7:3 / /secretmount rw - ext4 /dev/loop3 rw
           3 1 0:50 / /secretnet rw - nfs4 secrethost:/secretexport rw
         %%",
    );
    for path in ["/secretmount/secretfile", "/secretnet/x"] {
        let text = serde_json::to_string(&m.topology(path).without_places()).unwrap();
        assert!(!text.to_lowercase().contains("secret"), "{text}");
    }
}

#[test]
fn what_a_page_shows_is_remembered_and_its_age_told() {
    let m = Machine::new(
        "sata sda 8:0 M S
         %file proc/self/mountinfo
           1 0 8:0 / /m rw - xfs /dev/sda rw
         %%",
    );
    std::fs::write(m.at("sys/class/block/sda/stat"), "1 0 8 0 0 0 0 0 0 5 0\n").unwrap();
    let clock = Arc::new(ManualClock::at(1));
    clock.advance(Duration::from_secs(100));
    let fake = Fake::new(Ok(Power::Idle));
    let shared: spindle_base::clock::SharedClock = Arc::clone(&clock) as _;
    let watch = watch::Watch::new(m.roots.clone(), Box::new(Unprivileged), Arc::clone(&fake) as _, shared);
    let first = watch.volume(Path::new("/m/films"));
    assert_eq!(first.topology.as_ref().map(|t| t.disks.clone()), Some(vec!["sda".to_owned()]));
    assert_eq!(first.age_s, 0.0);
    // The disk goes away and the machine forgets it: the page still shows what it knew, two seconds old.
    std::fs::remove_file(m.at("sys/dev/block/8:0")).unwrap();
    clock.advance(Duration::from_secs(2));
    let again = watch.volume(Path::new("/m/films"));
    assert_eq!((again.topology.map(|t| t.disks.len()), again.age_s), (Some(1), 2.0));
    assert_eq!(watch.figures().len(), 1);
    assert!(clock.monotonic_us() > 0);
    let gone = watch.volume(Path::new("relative"));
    assert!(gone.why.unwrap().contains("no mount"));
    watch.close();
}

/// Device-mapper's tables come when the test says so.
struct Slow {
    entered: std::sync::mpsc::Sender<()>,
    go: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl crate::topology::ask::Ask for Slow {
    fn dm_table(&self, _device: (u32, u32)) -> Result<crate::sys::dm::Table, String> {
        let _ = self.entered.send(());
        // An error is a test that lets everybody go on.
        let _ = self.go.lock().unwrap().recv();
        Err("it needs privilege".to_owned())
    }
    fn zpool_status(&self, pool: &str) -> Result<String, String> {
        Unprivileged.zpool_status(pool)
    }
    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String> {
        Unprivileged.attribute(path, name)
    }
}

#[test]
fn the_first_look_waits_for_the_reading_whoever_has_begun_it() {
    let m = Machine::new(
        "sata sda 8:0 M S
         dev dm-0 252:0
           dm/name=vg-lv
           dm/uuid=LVM-abc
         %file proc/self/mountinfo
           1 0 252:0 / /m rw - xfs /dev/mapper/vg-lv rw
         %%",
    );
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (release, go) = std::sync::mpsc::channel();
    let slow = Box::new(Slow { entered, go: std::sync::Mutex::new(go) });
    let clock: spindle_base::clock::SharedClock = Arc::new(ManualClock::at(1));
    let watch = watch::Watch::new(m.roots.clone(), slow, Fake::new(Ok(Power::Idle)) as _, clock);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| watch.volume(Path::new("/m/films")));
        has_entered.recv().unwrap();
        // The volume is being read: for the first who asked, or for the thread that watches and has found it.
        let (told, second) = std::sync::mpsc::channel();
        let again = &watch;
        scope.spawn(move || {
            let _ = told.send(again.volume(Path::new("/m/films")));
        });
        assert!(second.recv_timeout(Duration::from_millis(200)).is_err(), "it did not wait");
        drop(release);
        assert!(second.recv().unwrap().topology.is_some());
        assert!(first.join().unwrap().topology.is_some());
    });
    watch.close();
}
