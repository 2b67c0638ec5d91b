/* SPDX-License-Identifier: Apache-2.0 */
/* Constants as the metadata section: TVM's JSON of objects, as version 0.14 lays it out. */
#include <inttypes.h>

#include "base/diag.h"
#include "relay/base64.h"
#include "relay/record.h"
#include "relay/write.h"

/* Nodes 0 to 2 are null, the map of keys and the list of constants; the first constant is followed
 * by what all of them share: the device that is not chosen yet (0.0.4 had none). */
enum { FIRST = 3, DEVICE = 4, SHARED = 2 };

static uint32_t node_of(uint32_t constant, bool old) {
    return FIRST + constant + (constant && !old ? SHARED : 0);
}

static void print_constant(struct tmk_text *out, uint32_t index, bool old) {
    tmk_text_printf(out,
                    ", \n    {\n      \"type_key\": \"relay.Constant\", \n      \"attrs\": {\n"
                    "        \"_checked_type_\": \"0\", \n        \"data\": \"%" PRIu32 "\", \n"
                    "        \"span\": \"0\"",
                    index);
    if (!old)
        tmk_text_printf(out, ", \n        \"virtual_device_\": \"%d\"", DEVICE);
    tmk_text_puts(out, "\n      }\n    }");
    if (!old && !index)
        tmk_text_printf(
            out,
            ", \n    {\n      \"type_key\": \"VirtualDevice\", \n      \"attrs\": {\n"
            "        \"device_type_int\": \"-1\", \n        \"memory_scope\": \"%d\", \n"
            "        \"target\": \"0\", \n        \"virtual_device_id\": \"-1\"\n"
            "      }\n    }, \n    {\n      \"type_key\": \"runtime.String\"\n    }",
            DEVICE + 1);
}

static enum tmk_status print_array(struct tmk_text *out, const struct tmk_tensor *tensor,
                                   struct tmk_diag *diag) {
    struct tmk_arena arena = {0};
    struct tmk_relay_param param = {0};
    struct tmk_text record = {0};
    enum tmk_status status = tmk_relay_record_make(tensor, &arena, &param, diag);
    if (status == TMK_OK) {
        tmk_relay_record_print(&record, &param);
        tmk_text_puts(out, "\n    \"");
        tmk_base64_print(out, record.data, record.len);
        tmk_text_puts(out, "\"");
        out->failed |= record.failed;
    }
    tmk_tensor_finish(&param.tensor);
    tmk_text_finish(&record);
    tmk_arena_finish(&arena);
    return status;
}

enum tmk_status tmk_relay_print_section(const struct tmk_relay_module *module, struct tmk_text *out,
                                        struct tmk_diag *diag) {
    bool old = tmk_relay_is_old(module);
    if (module->section) {
        tmk_text_puts(out, module->section);
        return TMK_OK;
    }
    tmk_text_puts(out,
                  "\n{\n  \"root\": 1, \n  \"nodes\": [\n    {\n      \"type_key\": \"\"\n    }"
                  ", \n    {\n      \"type_key\": \"Map\", \n      \"keys\": [\n"
                  "        \"relay.Constant\"\n      ], \n      \"data\": [2]\n    }, \n    {\n"
                  "      \"type_key\": \"Array\", \n      \"data\": [");
    for (uint32_t i = 0; i < module->n_constants; i++)
        tmk_text_printf(out, "%s%" PRIu32, i ? ", " : "", node_of(i, old));
    tmk_text_puts(out, "]\n    }");
    for (uint32_t i = 0; i < module->n_constants; i++)
        print_constant(out, i, old);
    tmk_text_puts(out, "\n  ], \n  \"b64ndarrays\": [");
    for (uint32_t i = 0; i < module->n_constants; i++) {
        tmk_text_puts(out, i ? ", " : "");
        TMK_TRY(tmk_in(diag, print_array(out, &module->constants[i], diag),
                       "meta[relay.Constant][%" PRIu32 "]", i));
    }
    tmk_text_printf(out, "\n  ], \n  \"attrs\": {\"tvm_version\": \"%s\"}\n}",
                    old ? "0.6.0" : "0.14.0");
    return TMK_OK;
}
