"""The environment of the second of two processes, as torchrun and srun set it."""

TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "somewhere",
    "TORCHELASTIC_RUN_ID": "none",
}
SLURM = {
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
}
