/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_out.h"

enum { DEFLATE_LEVEL = 4 };

void tmk_h5_put_attribute(struct tmk_h5 *h, hid_t at, const char *name, hid_t in_file,
                          hid_t in_memory, hid_t space, const void *value) {
    hid_t attribute =
        tmk_h5_keep(h, H5Acreate2(at, name, in_file, space, H5P_DEFAULT, H5P_DEFAULT));
    tmk_h5_ok(h, H5Awrite(attribute, in_memory, value));
}

void tmk_h5_put_text(struct tmk_h5 *h, hid_t at, const char *name, const char *text) {
    size_t mark = h->n_kept;
    hid_t type = tmk_h5_text_type(h, H5T_VARIABLE, false);
    tmk_h5_put_attribute(h, at, name, type, type, tmk_h5_keep(h, H5Screate(H5S_SCALAR)), &text);
    tmk_h5_release(h, mark);
}

void tmk_h5_put_u64(struct tmk_h5 *h, hid_t at, const char *name, uint64_t value) {
    size_t mark = h->n_kept;
    tmk_h5_put_attribute(h, at, name, H5T_STD_U64LE, H5T_NATIVE_UINT64,
                         tmk_h5_keep(h, H5Screate(H5S_SCALAR)), &value);
    tmk_h5_release(h, mark);
}

void tmk_h5_describe(struct tmk_h5 *h, hid_t dataset, const char *units, const char *about) {
    tmk_h5_put_text(h, dataset, "units", units);
    tmk_h5_put_text(h, dataset, "long_name", about);
}

hid_t tmk_h5_creation(struct tmk_h5 *h, int rank, const hsize_t *size, const hsize_t *chunk) {
    hid_t list = tmk_h5_keep(h, H5Pcreate(H5P_DATASET_CREATE));
    tmk_h5_ok(h, H5Pset_obj_track_times(list, false));
    hsize_t cut[2] = {1, 1};
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        empty = empty || size[i] == 0;
        cut[i] = chunk[i] < size[i] ? chunk[i] : size[i];
    }
    if (rank == 0 || empty)
        return list;
    tmk_h5_ok(h, H5Pset_chunk(list, rank, cut));
    if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
        tmk_h5_ok(h, H5Pset_shuffle(list));
        tmk_h5_ok(h, H5Pset_deflate(list, DEFLATE_LEVEL));
    }
    return list;
}

struct tmk_h5_out tmk_h5_new_column(struct tmk_h5 *h, hid_t parent, const char *name, hid_t in_file,
                                    hid_t in_memory, hsize_t size, hsize_t chunk) {
    hid_t dataset =
        H5Dcreate2(parent, name, in_file, tmk_h5_keep(h, H5Screate_simple(1, &size, NULL)),
                   H5P_DEFAULT, tmk_h5_creation(h, 1, &size, &chunk), H5P_DEFAULT);
    return (struct tmk_h5_out){tmk_h5_keep(h, dataset), in_memory, 0};
}

void tmk_h5_append(struct tmk_h5 *h, struct tmk_h5_out *to, const void *values, hsize_t n) {
    size_t mark = h->n_kept;
    if (n == 0 || h->failed)
        return;
    hid_t file = tmk_h5_keep(h, H5Dget_space(to->dataset)),
          memory = tmk_h5_keep(h, H5Screate_simple(1, &n, NULL));
    tmk_h5_ok(h, H5Sselect_hyperslab(file, H5S_SELECT_SET, &to->at, NULL, &n, NULL));
    tmk_h5_ok(h, H5Dwrite(to->dataset, to->type, memory, file, H5P_DEFAULT, values));
    to->at += n;
    tmk_h5_release(h, mark);
}

hid_t tmk_h5_new_group(struct tmk_h5 *h, hid_t parent, const char *name, const char *about) {
    hid_t list = tmk_h5_keep(h, H5Pcreate(H5P_GROUP_CREATE));
    tmk_h5_ok(h, H5Pset_obj_track_times(list, false));
    hid_t group = tmk_h5_keep(h, H5Gcreate2(parent, name, H5P_DEFAULT, list, H5P_DEFAULT));
    tmk_h5_put_text(h, group, "long_name", about);
    return group;
}
