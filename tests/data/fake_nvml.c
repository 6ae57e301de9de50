/* A driver with two devices that always answer the same, for tests: structures and numbers as in NVIDIA's public header nvml.h.
   The second device knows nothing but its use. */
#include <stdint.h>
#include <string.h>

typedef struct { int number; } *nvmlDevice_t;
typedef struct { unsigned int gpu; unsigned int memory; } nvmlUtilization_t;
typedef struct { unsigned long long total; unsigned long long free; unsigned long long used; } nvmlMemory_t;
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlProcessInfo_t;
enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

static struct { int number; } devices[2] = {{0}, {1}};
static int alive = 0;
unsigned int own_pid = 0;
unsigned int tenants = 2;
#define FIRST_ONLY if (!alive || device->number != 0) return NOT_SUPPORTED

int nvmlInit_v2(void) { alive++; return OK; }
int nvmlShutdown(void) { alive--; return OK; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) { *device = (nvmlDevice_t)&devices[index]; return OK; }
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) { FIRST_ONLY; strncpy(name, "Fake H1", length); return OK; }
int nvmlDeviceGetUUID(nvmlDevice_t device, char *name, unsigned int length) { FIRST_ONLY; strncpy(name, "GPU-1", length); return OK; }
int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *use) { use->gpu = 90 + device->number; use->memory = 40; return OK; }
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    FIRST_ONLY;
    memory->total = 80ull << 30; memory->free = 60ull << 30; memory->used = 20ull << 30;
    return OK;
}
int nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned int *state) { FIRST_ONLY; *state = 8; return OK; }
int nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *mhz) { FIRST_ONLY; *mhz = 1000 + type; return OK; }
int nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *mhz) { FIRST_ONLY; *mhz = 2000 + type; return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *bits) { FIRST_ONLY; *bits = 0x24; return OK; }
int nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *mw) { FIRST_ONLY; *mw = 300000; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *mw) { FIRST_ONLY; *mw = 400000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *mw) { FIRST_ONLY; *mw = 700000; return OK; }
int nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *c) { FIRST_ONLY; *c = 60 + sensor; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *n) { FIRST_ONLY; *n = 4; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *n) { FIRST_ONLY; *n = 8; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *n) { FIRST_ONLY; *n = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *n) { FIRST_ONLY; *n = 16; return OK; }
int nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *kb) { FIRST_ONLY; *kb = counter == 0 ? 7 : 9; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) {
    FIRST_ONLY;
    if (*count < tenants) { *count = tenants; return INSUFFICIENT_SIZE; }
    for (unsigned int i = 0; i < tenants; i++) {
        nvmlProcessInfo_t info = {i == 0 ? own_pid : 4000000 + i, (1ull << 20) * (i + 1), 0xFFFFFFFF, 0xFFFFFFFF};
        infos[i] = info;
    }
    *count = tenants;
    return OK;
}
