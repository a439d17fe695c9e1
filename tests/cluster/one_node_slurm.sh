#!/usr/bin/env bash
# A Slurm of one node, this machine, for tests and first steps. It needs the packages slurm-wlm and munge (as root:
# apt-get install -y --no-install-recommends slurm-wlm munge) and keeps everything in one folder.
#
#   bash tests/cluster/one_node_slurm.sh up FOLDER [line of slurm.conf ...]    prints the SLURM_CONF to export;
#                                                                             FOLDER: new, empty, or of an earlier up
#   bash tests/cluster/one_node_slurm.sh down FOLDER
#
# Two partitions: main, and urgent, whose jobs preempt the ones of main and put them back into the queue.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
action=${1:?up or down} folder=$(realpath -m "${2:?a folder}")

down() {
  local pids=()
  for name in slurmctld slurmd munged; do
    if [ -f "$folder/$name.pid" ]; then pids+=("$(cat "$folder/$name.pid")"); fi
  done
  for _ in $(seq 1 50); do
    # again and again: until they have ended
    if [ ${#pids[@]} = 0 ] || ! kill "${pids[@]}" 2>/dev/null; then return 0; fi
    sleep 0.1
  done
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

if [ "$action" = down ]; then down; exit 0; fi
shift 2
for program in munged slurmctld slurmd sbatch; do
  command -v "$program" >/dev/null || { echo "$program is not installed: slurm-wlm and munge are needed" >&2; exit 1; }
done
if [ -n "$(ls -A "$folder" 2>/dev/null)" ]; then
  if ! grep -qs '^ClusterName=one-node$' "$folder/slurm.conf"; then
    echo "$folder is not empty; name a new folder" >&2
    exit 1
  fi
  down
fi
rm -rf "$folder"
mkdir -p "$folder"/{state,spool,log}
chmod 755 "$folder"
head -c 1024 /dev/urandom > "$folder/munge.key"
chmod 400 "$folder/munge.key"
munged --force --key-file="$folder/munge.key" --socket="$folder/munge.sock" --pid-file="$folder/munged.pid" \
  --log-file="$folder/log/munged.log" --seed-file="$folder/munge.seed" --num-threads=2
host=$(hostname -s)
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
# cred_expire: seconds until a job that went back into the queue may start again
cat > "$folder/slurm.conf" <<CONF
ClusterName=one-node
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$folder/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
PreemptMode=REQUEUE
PreemptType=preempt/partition_prio
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(env -u OMP_NUM_THREADS nproc) RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=$host MaxTime=INFINITE State=UP PriorityTier=10
$(printf '%s\n' "$@")
CONF
export SLURM_CONF="$folder/slurm.conf"
slurmctld -c
slurmd -c
for _ in $(seq 1 60); do
  if sinfo --noheader --format=%t 2>/dev/null | grep -q idle; then
    echo "export SLURM_CONF=$SLURM_CONF"
    exit 0
  fi
  sleep 0.5
done
echo "Slurm did not start; see $folder/log" >&2
down
exit 1
