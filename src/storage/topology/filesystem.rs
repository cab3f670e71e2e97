//! From a path to what its filesystem lies on: by the kind of filesystem that the mount table names.

use std::path::{Path, PathBuf};

use super::md::join;
use super::mounts::{self, Mount, split_escaped};
use super::node::{Filesystem, Node, Sync};
use super::roots::Look;
use super::stack::Builder;
use super::sysfs::Sysfs;
use crate::sys;
use crate::sys::zfs::Vdev;

/// Members that are gone and shown; a number that a damaged sysfs may give is no reason to fill a page.
const MAX_GONE: usize = 64;

impl Builder<'_> {
    /// The volume under a path, as part of another: a branch of a pool, a layer, the file behind a loop device.
    pub(crate) fn path(&mut self, path: &Path) -> Node {
        let shown = path.display().to_string();
        let found = match self.roots.find(path) {
            Ok(found) => found,
            Err(e) => return Node::unknown(&shown, format!("`{shown}` cannot be looked up: {e}")),
        };
        match self.mount_of(&found.path, found.mount_id) {
            Some(mount) => self.filesystem(&mount, &found.path, found.is_file == Some(true)),
            None => Node::unknown(&shown, format!("`{shown}` is below no mount that is listed here")),
        }
    }

    /// The mount of a path: by its id where that is known, else by its name.
    pub(crate) fn mount_of(&self, path: &Path, id: Option<u64>) -> Option<Mount> {
        match id.and_then(|id| self.mounts.iter().find(|m| m.id == id)) {
            Some(mount) => Some(mount.clone()),
            // A mount that is not listed is not the one above it.
            None if id.is_some() => self.roots.unlisted(path),
            None => mounts::of_path(&self.mounts, path).cloned(),
        }
    }

    /// What a mount is of. `path`: what was asked about; `is_file`: a regular file, so that a pool may be asked which
    /// branch holds it.
    pub(crate) fn filesystem(&mut self, mount: &Mount, path: &Path, is_file: bool) -> Node {
        let key = PathBuf::from(format!(
            "mount {} of {}:{}",
            mount.mount_point.display(),
            mount.device.0,
            mount.device.1
        ));
        let (mount, path) = (mount.clone(), path.to_owned());
        let name = mount.mount_point.display().to_string();
        self.within(key, &name, move |b| b.describe_mount(&mount, &path, is_file))
    }

    fn describe_mount(&mut self, mount: &Mount, path: &Path, is_file: bool) -> Node {
        match mount.kind.as_str() {
            "btrfs" => return self.btrfs(mount),
            "zfs" => return self.zfs(mount),
            "fuse.mergerfs" | "mergerfs" => return self.mergerfs(mount, path, is_file),
            "fuse.shfs" | "shfs" => return self.shfs(mount, path, is_file),
            "overlay" | "overlayfs" => return self.overlay(mount, path, is_file),
            "tmpfs" | "ramfs" | "rootfs" | "devtmpfs" | "hugetlbfs" => {
                let why = "it is in memory: no disk is below it";
                return Node {
                    why: Some(why.to_owned()),
                    level: Some(mount.kind.clone()),
                    ..Node::new("memory", &mount.kind)
                };
            }
            "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "securityfs" | "debugfs" | "tracefs"
            | "configfs" | "mqueue" | "bpf" | "fusectl" | "binfmt_misc" | "selinuxfs" | "smackfs"
            | "nsfs" | "pipefs" | "sockfs" => {
                let why = "the kernel makes up what is in it when it is read: no disk is below it";
                return Node {
                    why: Some(why.to_owned()),
                    level: Some(mount.kind.clone()),
                    ..Node::new("memory", &mount.kind)
                };
            }
            "bcachefs" => return self.bcachefs(mount),
            _ => {}
        }
        if mount.device.0 != 0
            && let Some(dir) = self.sys.by_number(mount.device)
        {
            return self.device(&dir);
        }
        if let Some(remote) = sys::network::remote(&mount.kind, &mount.source) {
            return network(mount, remote);
        }
        // What is left has an anonymous device number: the source is a name that somebody gave.
        if mount.source.starts_with("/dev/")
            && let Some(dir) = self.roots.block_device(&mount.source)
        {
            return self.device(&dir);
        }
        let kind = mount.kind.strip_prefix("fuse.").unwrap_or(&mount.kind);
        let is_over_folder = mount.source.starts_with('/')
            && (mount.kind.starts_with("fuse") || kind == "ecryptfs")
            && !mount.source.starts_with("/dev/");
        let mut node = Node {
            level: Some(mount.kind.clone()),
            ..Node::unknown(display_source(mount), format!("{kind} does not say which disks it is on"))
        };
        if is_over_folder {
            if matches!(kind, "gocryptfs" | "encfs" | "cryfs" | "securefs" | "ecryptfs") {
                "crypt".clone_into(&mut node.kind);
                node.why = None;
            } else {
                node.why = Some(format!(
                    "{kind} shows what is in `{}`; whether all its bytes come from there is not known",
                    mount.source
                ));
            }
            let source = PathBuf::from(&mount.source);
            node.children = vec![self.path(&source).with_role("data")];
        }
        node
    }

    // ---- btrfs

    /// The identifier of a mounted btrfs, by its member devices in sysfs: no file is opened.
    pub(crate) fn btrfs_id(&self, mount: &Mount) -> Option<String> {
        let all = self.sys.path("fs/btrfs");
        let ids: Vec<String> = Sysfs::names(&all).into_iter().filter(|n| n.len() == 36).collect();
        let device = self.roots.block_device(&mount.source);
        let by_device = device
            .and_then(|device| ids.iter().find(|id| self.sys.btrfs_members(id).contains(&device)).cloned());
        // Inside a container the source may be a name that means nothing here.
        by_device.or_else(|| self.btrfs_id_by_asking(mount).filter(|id| ids.contains(id) || ids.is_empty()))
    }

    /// Opening a folder of btrfs may search its tree for the last index (btrfs_opendir): not for a page view.
    fn btrfs_id_by_asking(&self, mount: &Mount) -> Option<String> {
        if self.roots.look == Look::Open { sys::btrfs::fsid_of(&mount.mount_point) } else { None }
    }

    fn btrfs(&mut self, mount: &Mount) -> Node {
        let Some(id) = self.btrfs_id(mount) else {
            let mut node = Node::new("btrfs", &mount.source);
            node.why = Some(
                "which btrfs of /sys/fs/btrfs it is cannot be told: sysfs does not list its device"
                    .to_owned(),
            );
            if let Some(dir) = self.roots.block_device(&mount.source) {
                node.children = vec![self.device(&dir).with_role("data")];
            }
            return node;
        };
        self.btrfs_by_id(&id, &mount.mount_point)
    }

    pub(crate) fn btrfs_by_id(&mut self, id: &str, mount_point: &Path) -> Node {
        let at = self.sys.path("fs/btrfs").join(id);
        let mut node = Node::new("btrfs", self.sys.btrfs_label(id).unwrap_or_else(|| id.to_owned()));
        node.chunk_bytes = Some(super::shape::BTRFS_STRIPE_BYTES);
        node.read_ahead_bytes = Sysfs::number(&at, "bdi/read_ahead_kb").map(|k| k.saturating_mul(1024));
        let members = self.sys.btrfs_members(id);
        node.children = members
            .iter()
            .map_while(|d| (!self.is_full()).then(|| self.device(d).with_role("data")))
            .collect();
        for child in &mut node.children {
            child.member_state = Some("in_sync".to_owned());
        }
        let mut remarks = Vec::new();
        let mut counted = 0_usize;
        for devid in Sysfs::names(&at.join("devinfo")) {
            let info = at.join("devinfo").join(&devid);
            let flag = |name: &str| Sysfs::number(&info, name).is_some_and(|v| v != 0);
            if flag("missing") {
                node.children.push(
                    Node::missing(format!("device {devid}"), "btrfs runs without this device")
                        .with_role("data"),
                );
            } else {
                counted += 1;
            }
            if flag("replace_target") {
                remarks.push(format!("device {devid} is being filled to replace another"));
            }
            if let Some(errors) = Sysfs::text(&info, "error_stats") {
                let bad: Vec<&str> =
                    errors.lines().filter(|l| !l.ends_with(" 0") && l.contains('_')).collect();
                if !bad.is_empty() {
                    remarks.push(format!("device {devid} has had errors: {}", bad.join(", ")));
                }
            }
        }
        // A disk that is pulled takes its link among the devices along; btrfs itself does not notice until the next mount.
        if !members.is_empty() {
            for _ in members.len()..counted.min(MAX_GONE) {
                let why = "btrfs counts it, and the machine has no such disk any more";
                node.children.push(Node::missing("a device that is gone", why).with_role("data"));
            }
        }
        node.degraded = node.children.iter().any(|c| c.member_state.as_deref() == Some("missing"));
        if members.is_empty() {
            node.why = Some("sysfs lists no devices for it".to_owned());
        }
        self.btrfs_profiles(id, &mut node, &mut remarks);
        node.size_bytes = node.children.iter().map(|c| c.size_bytes).fold(0, u64::saturating_add);
        let operation = Sysfs::text(&at, "exclusive_operation").filter(|o| o != "none" && !o.is_empty());
        if let Some(operation) = operation {
            let progress =
                if self.roots.look == Look::Open { sys::btrfs::balance_done(mount_point) } else { None };
            match (operation.as_str(), progress) {
                ("balance", Some(done)) => {
                    node.sync = Some(Sync { action: "balance".to_owned(), done, ..Sync::default() })
                }
                _ => remarks.push(format!("under way: {operation}")),
            }
        }
        node.state = (!remarks.is_empty()).then(|| remarks.join("; "));
        node
    }

    /// Level by the profile that holds most data; several are named (`raid1+single`: a conversion, or one broken off).
    fn btrfs_profiles(&self, id: &str, node: &mut Node, remarks: &mut Vec<String>) {
        let profiles = self.sys.btrfs_data_profiles(id);
        let Some((first, _)) = profiles.first() else {
            node.level = Some("single".to_owned());
            node.why = node.why.take().or_else(|| Some("sysfs does not show its data profile".to_owned()));
            return;
        };
        node.level = Some(first.clone());
        if profiles.len() > 1 {
            let all = profiles.iter().fold(0_u64, |a, p| a.saturating_add(p.1));
            let names: Vec<&str> = profiles.iter().map(|p| p.0.as_str()).collect();
            node.arrangement = Some(names.join("+"));
            let shares: Vec<String> = profiles
                .iter()
                .map(|p| format!("{} {:.0} %", p.0, super::md::share(p.1, all) * 100.0))
                .collect();
            remarks.push(format!("data in several profiles: {}", shares.join(", ")));
        }
    }

    // ---- bcachefs

    /// Its source lists the devices, separated by colons.
    fn bcachefs(&mut self, mount: &Mount) -> Node {
        let mut node = Node::new("unknown", &mount.source);
        node.level = Some("bcachefs".to_owned());
        node.why =
            Some("bcachefs places every extent by itself: copies and columns are not known".to_owned());
        let names: Vec<String> = mount.source.split(':').take(256).map(str::to_owned).collect();
        for name in names {
            node.children.push(self.named(&name).with_role("data"));
        }
        node
    }

    // ---- ZFS

    fn zfs(&mut self, mount: &Mount) -> Node {
        self.zfs_of(&mount.source)
    }

    /// A dataset or volume by its name.
    pub(crate) fn zfs_of(&mut self, name: &str) -> Node {
        let pool_name = name.split(['/', '@']).next().unwrap_or("").to_owned();
        let mut node = Node { level: Some("dataset".to_owned()), ..Node::new("zfs", name) };
        let mut pool =
            Node { level: Some("pool".to_owned()), ..Node::new("zfs", &pool_name) }.with_role("data");
        match self.ask.zpool_status(&pool_name) {
            Ok(text) => match sys::zfs::parse(&text).into_iter().find(|p| p.name == pool_name) {
                Some(found) => self.zpool(&mut pool, &found),
                None => pool.why = Some("zpool does not list this pool".to_owned()),
            },
            Err(why) => {
                // Without the tool the kernel module still tells how the pool is, not what it is made of.
                let at = format!("spl/kstat/zfs/{pool_name}/state");
                pool.state = self.roots.proc_text(&at).map(|t| t.trim().to_owned()).filter(|s| !s.is_empty());
                pool.degraded = pool.state.as_deref().is_some_and(|s| s != "ONLINE");
                pool.why = Some(format!("which disks the pool has is told by zpool alone: {why}"));
            }
        }
        node.degraded = pool.degraded;
        node.children = vec![pool];
        node
    }

    fn zpool(&mut self, node: &mut Node, pool: &sys::zfs::Pool) {
        node.state = Some(pool.state.clone()).filter(|s| !s.is_empty());
        node.degraded = !matches!(pool.state.as_str(), "ONLINE" | "");
        node.sync = pool.scan.as_ref().map(|s| Sync {
            action: s.action.clone(),
            done: s.done,
            speed_bytes_s: s.speed_bytes_s,
            remaining_s: s.remaining_s,
        });
        for vdev in &pool.vdevs {
            if self.is_full() {
                node.why = Some("more devices than are followed".to_owned());
                break;
            }
            let role = match vdev.class.as_str() {
                "dedup" => "metadata",
                other => other,
            };
            let child = self.vdev(vdev).with_role(role);
            node.children.push(child);
        }
        if node.children.is_empty() {
            node.why = Some("zpool lists no devices for it".to_owned());
        }
        node.size_bytes =
            node.children.iter().filter(|c| c.is_data()).map(|c| c.size_bytes).fold(0, u64::saturating_add);
    }

    fn vdev(&mut self, vdev: &Vdev) -> Node {
        let key = PathBuf::from(format!("vdev {} {}", vdev.class, vdev.name));
        let vdev = vdev.clone();
        self.within(key, &vdev.name.clone(), move |b| b.describe_vdev(&vdev))
    }

    fn describe_vdev(&mut self, vdev: &Vdev) -> Node {
        let standing = match vdev.state.as_str() {
            _ if vdev.note.contains("resilvering") => "rebuilding",
            "ONLINE" | "" => "in_sync",
            // A vdev that lost some of its members still serves; a device that is told so has errors and serves.
            "DEGRADED" => "in_sync",
            "AVAIL" | "INUSE" => "spare",
            "FAULTED" => "faulty",
            _ => "missing",
        };
        let mut node = match &vdev.level {
            Some(level) => Node { level: Some(level.clone()), ..Node::new("zfs", &vdev.name) },
            None if vdev.name.starts_with("/dev/") => self.named(&vdev.name),
            None if vdev.name.starts_with('/') => {
                let below = self.path(Path::new(&vdev.name)).with_role("data");
                Node {
                    path: Some(vdev.name.clone()),
                    level: Some("file".to_owned()),
                    children: vec![below],
                    ..Node::new("zfs", &vdev.name)
                }
            }
            None if vdev.name.starts_with("draid") => {
                let why = "a distributed spare: room on the disks of the draid itself";
                Node {
                    level: Some("spare".to_owned()),
                    why: Some(why.to_owned()),
                    ..Node::new("zfs", &vdev.name)
                }
            }
            None => Node::unknown(
                &vdev.name,
                format!("ZFS does not find this device {}", vdev.note).trim_end().to_owned(),
            ),
        };
        node.member_state = Some(standing.to_owned());
        let [read, write, checksum] = vdev.errors;
        let errors = (read + write + checksum > 0)
            .then(|| format!("errors: {read} read, {write} write, {checksum} checksum"));
        let state = (!matches!(vdev.state.as_str(), "ONLINE" | "")).then(|| vdev.state.clone());
        node.state =
            join([node.state.take(), state, errors, Some(vdev.note.clone()).filter(|n| !n.is_empty())]);
        let member_role = match vdev.level.as_deref() {
            Some("mirror" | "replacing" | "spare") => "mirror",
            _ => "data",
        };
        for child in &vdev.children {
            if self.is_full() {
                break;
            }
            let mut child_node = self.vdev(child);
            // A spare that stands in serves like any other.
            if child_node.member_state.as_deref() == Some("spare") && vdev.level.as_deref() == Some("spare") {
                child_node.member_state = Some("in_sync".to_owned());
            }
            node.children.push(child_node.with_role(member_role));
        }
        if vdev.level.is_some() {
            node.degraded = vdev.state == "DEGRADED";
            node.size_bytes = node.children.iter().map(|c| c.size_bytes).fold(0, u64::saturating_add);
        }
        node
    }

    // ---- pools of folders

    fn mergerfs(&mut self, mount: &Mount, path: &Path, is_file: bool) -> Node {
        let mut node = Node {
            level: Some("pool".to_owned()),
            ..Node::new("mergerfs", mount.mount_point.display().to_string())
        };
        node.path = Some(mount.mount_point.display().to_string());
        if is_file {
            let base =
                self.ask.attribute(path, "user.mergerfs.basepath").ok().and_then(|b| sys::mergerfs::path(&b));
            if let Some(base) = base {
                node.level = Some("file".to_owned());
                node.children = vec![self.branch(&base, None)];
                return node;
            }
        }
        let control = mount.mount_point.join(".mergerfs");
        let listed = self
            .ask
            .attribute(&control, "user.mergerfs.branches")
            .or_else(|_| self.ask.attribute(&control, "user.mergerfs.srcmounts"));
        match listed {
            Ok(text) => {
                for branch in sys::mergerfs::branches(&text) {
                    if self.is_full() {
                        break;
                    }
                    let child = self.branch(&branch.path, Some(branch.mode.as_str()));
                    node.children.push(child);
                }
            }
            Err(why) => node.why = Some(format!("mergerfs does not tell its branches: {why}")),
        }
        // By which rule a new file gets its branch, and one that is on several is found.
        let rules = ["create", "search"].into_iter().filter_map(|category| {
            let told = self.ask.attribute(&control, &format!("user.mergerfs.category.{category}")).ok()?;
            Some(format!("{category}={}", sys::mergerfs::word(&told)?))
        });
        let rules: Vec<String> = rules.collect();
        node.arrangement = (!rules.is_empty()).then(|| rules.join(" "));
        if node.children.is_empty() && node.why.is_none() {
            node.why = Some("mergerfs lists no branches".to_owned());
        }
        node.size_bytes = node.children.iter().map(|c| c.size_bytes).fold(0, u64::saturating_add);
        node
    }

    fn branch(&mut self, path: &Path, mode: Option<&str>) -> Node {
        let mut child = self.path(path).with_role("data");
        child.path = Some(path.display().to_string());
        child.state = join([
            child.state.take(),
            mode.filter(|m| !matches!(*m, "RW" | "")).map(|m| format!("branch {m}")),
        ]);
        child
    }

    /// Unraid: user shares over `/mnt/diskN` and pools, each with its own filesystem; a file is whole on one.
    fn shfs(&mut self, mount: &Mount, path: &Path, is_file: bool) -> Node {
        let mut node = Node {
            level: Some("share".to_owned()),
            ..Node::new("shfs", mount.mount_point.display().to_string())
        };
        node.path = Some(mount.mount_point.display().to_string());
        let root = mount.mount_point.parent().unwrap_or(Path::new("/mnt")).to_owned();
        let asked = if is_file { Some("system.LOCATION") } else { None };
        let told = asked.and_then(|name| self.ask.attribute(path, name).ok());
        let mut names = told.map(|t| sys::mergerfs::locations(&t)).unwrap_or_default();
        if names.is_empty() {
            // Every disk and pool beside the share: what is mounted directly under /mnt and is no share itself.
            let mut mounts: Vec<String> = self
                .mounts
                .iter()
                .filter(|m| {
                    m.mount_point.parent() == Some(&root) && !m.kind.ends_with("shfs") && m.kind != "tmpfs"
                })
                .filter_map(|m| Some(m.mount_point.file_name()?.to_string_lossy().into_owned()))
                .filter(|n| !matches!(n.as_str(), "disks" | "remotes" | "addons" | "rootshare"))
                .collect();
            mounts.sort_by_key(|n| super::sysfs::natural(n));
            mounts.dedup();
            names = mounts;
        } else {
            node.level = Some("file".to_owned());
        }
        for name in names {
            if self.is_full() {
                break;
            }
            let child = self.branch(&root.join(&name), None);
            node.children.push(child);
        }
        if node.children.is_empty() {
            node.why = Some("no disk of the array is mounted beside it".to_owned());
        }
        node.size_bytes = node.children.iter().map(|c| c.size_bytes).fold(0, u64::saturating_add);
        node
    }

    /// Documentation/filesystems/overlayfs.rst: the upper layer hides the lower ones, left before right.
    fn overlay(&mut self, mount: &Mount, path: &Path, is_file: bool) -> Node {
        let mut node = Node::new("overlay", mount.mount_point.display().to_string());
        let unescape = |t: &str| t.replace("\\:", ":").replace("\\\\", "\\");
        let mut layers: Vec<(String, bool)> = Vec::new();
        layers.extend(mount.option("upperdir").map(|u| (u, true)));
        if let Some(lower) = mount.option("lowerdir") {
            layers.extend(split_escaped(&lower, ':').filter(|l| !l.is_empty()).map(|l| (unescape(l), false)));
        }
        for name in ["lowerdir+", "datadir+"] {
            layers.extend(mount.values(name).map(|l| (l, false)));
        }
        layers.truncate(500);
        let total = layers.len();
        if is_file && self.roots.look == Look::Open {
            // A file of the merged tree comes from the first layer that has it.
            let within = path.strip_prefix(&mount.mount_point).ok().map(|rest| {
                mount.root.strip_prefix("/").map_or_else(|_| rest.to_owned(), |root| root.join(rest))
            });
            let own = within.and_then(|within| {
                layers.iter().position(|(layer, _)| rustix::fs::lstat(Path::new(layer).join(&within)).is_ok())
            });
            if let Some(own) = own {
                node.level = Some("file".to_owned());
                layers = vec![layers.swap_remove(own)];
            }
        }
        let mut seen: Vec<Node> = Vec::new();
        for (layer, is_upper) in &layers {
            if self.is_full() {
                break;
            }
            let mut child = self.path(Path::new(layer)).with_role("data");
            child.path = Some(layer.clone());
            child.state =
                join([child.state.take(), Some(if *is_upper { "upper" } else { "lower" }.to_owned())]);
            // An image has dozens of layers in one filesystem.
            let same =
                seen.iter_mut().find(|s| s.kind == child.kind && s.name == child.name && s.kind != "unknown");
            match same {
                Some(first) => first.why = Some("several layers of the overlay are on it".to_owned()),
                None => seen.push(child),
            }
        }
        node.children = seen;
        node.state = (total > 0).then(|| format!("{total} layers"));
        if node.children.is_empty() {
            node.why = Some("the mount table does not show its layers".to_owned());
        }
        node
    }

    /// Kind, identifier and place of the filesystem of a mount.
    pub(crate) fn filesystem_facts(&self, mount: &Mount) -> Filesystem {
        let uuid = match mount.kind.as_str() {
            "btrfs" => self.btrfs_id(mount),
            _ if mount.device.0 != 0 => {
                let udev = self.roots.udev(mount.device, "ID_FS_UUID");
                udev.or_else(|| {
                    let dir = self.sys.by_number(mount.device)?;
                    self.roots.uuid_of(&Sysfs::name(&dir))
                })
                .or_else(|| match (self.roots.look, mount.kind.as_str()) {
                    (Look::Open, _) => sys::filesystem_uuid(&mount.mount_point, false),
                    // Opening a folder of XFS reads its first block ahead (xfs_dir_open).
                    (Look::Cached, "ext2" | "ext3" | "ext4") => {
                        sys::filesystem_uuid(&mount.mount_point, true)
                    }
                    _ => None,
                })
            }
            _ => None,
        };
        Filesystem {
            kind: mount.kind.clone(),
            uuid,
            mount: mount.mount_point.clone(),
            stopped_writes: mount.stopped_writes,
        }
    }
}

fn network(mount: &Mount, remote: sys::network::Remote) -> Node {
    let name = match (&remote.server, &remote.export) {
        (Some(server), Some(export)) => format!("{server}:{export}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => mount.kind.clone(),
    };
    let whose = if remote.is_host { "the host's" } else { "the server's" };
    Node {
        level: Some(mount.kind.clone()),
        server: remote.server,
        export: remote.export,
        why: Some(format!("its disks are {whose}: which of them serves a byte cannot be seen from here")),
        ..Node::new("network", name)
    }
}

/// The source of a mount without anything that may be a secret.
fn display_source(mount: &Mount) -> String {
    match mount.source.split_once("://") {
        Some((scheme, rest)) => {
            let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
            let server = server.rsplit_once('@').map_or(server, |(_, s)| s);
            format!("{scheme}://{server}/{path}")
        }
        None if mount.source.is_empty() || mount.source == "none" => mount.kind.clone(),
        None => mount.source.clone(),
    }
}
