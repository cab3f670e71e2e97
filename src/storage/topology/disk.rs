//! The facts of one disk that sysfs and udev's database tell. Reads memory of the kernel, never the disk.

use std::path::Path;

use super::node::{DiskFacts, Node};
use super::stack::{Builder, is_numbered};
use super::sysfs::Sysfs;

/// The node of a device that is made of nothing else.
pub(crate) fn describe(b: &mut Builder<'_>, dir: &Path, mut node: Node) -> Node {
    "disk".clone_into(&mut node.kind);
    facts(dir, &mut node.disk);
    if is_numbered(&node.name, "nbd") {
        "nbd".clone_into(&mut node.kind);
        // The kernel keeps the server's process, not its address.
        let export = Sysfs::text(dir, "backend").filter(|t| !t.is_empty());
        node.why =
            export.is_none().then(|| "which server is behind it is not shown by the kernel".to_owned());
        node.export = export;
    }
    if is_numbered(&node.name, "rbd") {
        let n = node.name.trim_start_matches("rbd");
        let at = b.sys.path(&format!("bus/rbd/devices/{n}"));
        "network".clone_into(&mut node.kind);
        node.server = Sysfs::text(&at, "cluster_fsid");
        node.export = Sysfs::text(&at, "pool").zip(Sysfs::text(&at, "name")).map(|(p, n)| format!("{p}/{n}"));
        node.why = Some("its disks are the Ceph cluster's".to_owned());
    }
    if is_numbered(&node.name, "zd") {
        return zvol(b, node);
    }
    if matches!(node.disk.transport.as_deref(), Some("iscsi" | "nvme-tcp" | "nvme-rdma")) {
        node.why = Some("it comes over the network: which disks are behind it is known there".to_owned());
    }
    if is_numbered(&node.name, "drbd") {
        node.why = Some("DRBD does not show in sysfs which device is below it".to_owned());
    }
    if let Some(number) = Sysfs::device_number(dir) {
        let model = || b.roots.udev(number, "ID_MODEL").map(|m| m.replace('_', " "));
        node.disk.model = node.disk.model.take().or_else(model);
        node.disk.serial = node
            .disk
            .serial
            .take()
            .or_else(|| b.roots.udev(number, "ID_SERIAL_SHORT"))
            .or_else(|| b.roots.udev(number, "ID_SERIAL"));
        node.disk.wwid = node.disk.wwid.take().or_else(|| b.roots.udev(number, "ID_WWN_WITH_EXTENSION"));
    }
    // SCSI: running; NVMe: live. Anything else is worth a word.
    let state = Sysfs::text(dir, "device/state").filter(|s| !matches!(s.as_str(), "running" | "live" | ""));
    if let Some(state) = state {
        // The others pass: blocked, quiesce, resetting, connecting.
        if matches!(state.as_str(), "offline" | "transport-offline" | "dead") {
            node.disk.health = Some("failing".to_owned());
            node.disk.health_why = Some(format!("the kernel has it as {state}"));
        }
        node.state = super::md::join([node.state.take(), Some(state)]);
    }
    node
}

/// A ZFS volume: sysfs does not say of which pool; the links in `/dev/zvol` do.
fn zvol(b: &mut Builder<'_>, node: Node) -> Node {
    let size_bytes = node.size_bytes;
    let mut out = match b.roots.zvol(&node.name) {
        Some(volume) => b.zfs_of(&volume),
        None => Node {
            why: Some("of which pool this ZFS volume is does not show in /dev/zvol".to_owned()),
            ..Node::new("zfs", &node.name)
        },
    };
    out.level = Some("volume".to_owned());
    out.path = node.path;
    out.size_bytes = size_bytes;
    out
}

/// Whatever is under the device's own directory.
pub(crate) fn facts(dir: &Path, facts: &mut DiskFacts) {
    let text = |attribute: &str| Sysfs::text(dir, attribute).map(|t| tidy(&t)).filter(|t| !t.is_empty());
    facts.rotational = Sysfs::number(dir, "queue/rotational").map(|r| r != 0);
    facts.transport = transport(dir).map(str::to_owned);
    facts.model = match (text("device/vendor"), text("device/model")) {
        // `ATA` and the like are not vendors; a PCI number is not a name.
        (Some(v), Some(m)) if v != "ATA" && v != "NVMe" && !v.starts_with("0x") && !m.starts_with(&v) => {
            Some(format!("{v} {m}"))
        }
        (_, Some(m)) => Some(m),
        // SD and eMMC cards have a name only.
        _ => text("device/name"),
    };
    facts.serial = text("device/serial").or_else(|| text("serial")).or_else(|| page_80(dir));
    facts.wwid = text("wwid").or_else(|| text("device/wwid"));
    let depth = Sysfs::number(dir, "device/queue_depth").or_else(|| {
        let is_own = matches!(
            facts.transport.as_deref(),
            Some("nvme" | "virtio" | "nvme-tcp" | "nvme-rdma" | "nvme-fc")
        );
        is_own.then(|| Sysfs::number(dir, "queue/nr_requests")).flatten()
    });
    facts.queue_depth = depth.and_then(|d| u32::try_from(d).ok());
}

/// Blanks within are the firmware's padding.
fn tidy(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(128)
        .collect()
}

/// Serial number by vital product data page 0x80 (SPC-4 7.8.15): four bytes of header, then ASCII.
fn page_80(dir: &Path) -> Option<String> {
    let bytes = std::fs::read(dir.join("device/vpd_pg80")).ok()?;
    let len = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    let text = tidy(&String::from_utf8_lossy(bytes.get(4..4 + len)?));
    Some(text).filter(|t| !t.is_empty())
}

/// How the disk is connected, by the places that its directory is in and the links beside it.
fn transport(dir: &Path) -> Option<&'static str> {
    let name = Sysfs::name(dir);
    for (prefix, what) in [
        ("loop", "loop"),
        ("nbd", "nbd"),
        ("zram", "zram"),
        ("ram", "ram"),
        ("mmcblk", "mmc"),
        ("rbd", "rbd"),
        ("pmem", "pmem"),
        ("zd", "zfs"),
        ("drbd", "drbd"),
    ] {
        if name.strip_prefix(prefix).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit())) {
            return Some(what);
        }
    }
    if name.starts_with("nvme") {
        return Some(match nvme_transport(dir).as_deref() {
            Some("tcp") => "nvme-tcp",
            Some("rdma") => "nvme-rdma",
            Some("fc") => "nvme-fc",
            _ => "nvme",
        });
    }
    if name.starts_with("xvd") {
        return Some("xen");
    }
    let path = dir.to_string_lossy();
    let has = |prefix: &str| {
        path.split('/')
            .any(|p| p.strip_prefix(prefix).is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit())))
    };
    // Nearest to the disk first: a SATA controller may hang on PCI behind virtio or USB.
    if has("usb") {
        Some("usb")
    } else if has("ata") {
        Some("sata")
    } else if has("session") {
        Some("iscsi")
    } else if has("end_device-") || has("sas") {
        Some("sas")
    } else if has("rport-") {
        Some("fc")
    } else if has("host") {
        Some("scsi")
    } else if has("virtio") {
        Some("virtio")
    } else {
        None
    }
}

/// `transport` of the controller; with native multipath the namespace hangs on the subsystem, whose
/// controllers are beside it.
fn nvme_transport(dir: &Path) -> Option<String> {
    let device = dir.join("device");
    Sysfs::text(&device, "transport").or_else(|| {
        let names = Sysfs::names(&device);
        let controller = names.into_iter().find(|n| is_numbered(n, "nvme"))?;
        Sysfs::text(&device.join(controller), "transport")
    })
}
