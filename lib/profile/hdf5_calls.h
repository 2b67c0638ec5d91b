/* SPDX-License-Identifier: Apache-2.0 */
/* HDF5's functions and types as writing calls them. Where HDF5 is a shared library, it is loaded
 * when a file is first to be written: its own dependencies are forty libraries in Debian, and half
 * of the time that the program takes to start. */
#pragma once

#include <hdf5.h>
#include <hdf5_hl.h>

#ifdef TMK_HDF5_LIBRARY /* its soname; TMK_HDF5_HL_LIBRARY that of the high-level functions */

#define TMK_HDF5_CALLS(X)                                                                          \
    X(H5Acreate2)                                                                                  \
    X(H5Awrite)                                                                                    \
    X(H5Dcreate2) X(H5Dget_space) X(H5Dwrite) X(H5Eget_auto2) X(H5Eset_auto2) X(H5Ewalk2)          \
        X(H5Fclose) X(H5Fcreate) X(H5Gcreate2) X(H5Idec_ref) X(H5P_CLS_DATASET_CREATE_ID_g) X(     \
            H5P_CLS_FILE_ACCESS_ID_g) X(H5P_CLS_FILE_CREATE_ID_g) X(H5P_CLS_GROUP_CREATE_ID_g)     \
            X(H5Pcreate) X(H5Pset_cache) X(H5Pset_chunk) X(H5Pset_fapl_core) X(                    \
                H5Pset_file_image_callbacks) X(H5Pset_filter) X(H5Pset_libver_bounds)              \
                X(H5Pset_obj_track_times) X(H5Screate) X(H5Screate_simple) X(H5Sselect_hyperslab)  \
                    X(H5T_C_S1_g) X(H5T_IEEE_F32LE_g) X(H5T_IEEE_F64LE_g) X(H5T_NATIVE_DOUBLE_g)   \
                        X(H5T_NATIVE_FLOAT_g) X(H5T_NATIVE_INT32_g) X(H5T_NATIVE_INT64_g)          \
                            X(H5T_NATIVE_UINT16_g) X(H5T_NATIVE_UINT32_g) X(H5T_NATIVE_UINT64_g)   \
                                X(H5T_NATIVE_UINT8_g) X(H5T_STD_I32LE_g) X(H5T_STD_I64LE_g)        \
                                    X(H5T_STD_U16LE_g) X(H5T_STD_U32LE_g) X(H5T_STD_U64LE_g)       \
                                        X(H5T_STD_U8LE_g) X(H5Tcopy) X(H5Tcreate) X(H5Tinsert)     \
                                            X(H5Tpack) X(H5Tset_cset) X(H5Tset_size)               \
                                                X(H5Tset_strpad) X(H5Zfilter_avail)                \
                                                    X(H5check_version) X(H5dont_atexit) X(H5open)
#define TMK_HDF5_HL_CALLS(X) X(H5DSattach_scale) X(H5DSset_label) X(H5DSset_scale)

#define X(name) __typeof__(name) *name;
extern struct tmk_hdf5_calls {
    TMK_HDF5_CALLS(X)
    TMK_HDF5_HL_CALLS(X)
} tmk_hdf5_calls; /* set by tmk_profile_load_hdf5 */
#undef X

#ifndef TMK_HDF5_LOADER /* who sets the pointers needs their own names */
#define H5Acreate2 (*tmk_hdf5_calls.H5Acreate2)
#define H5Awrite (*tmk_hdf5_calls.H5Awrite)
#define H5Dcreate2 (*tmk_hdf5_calls.H5Dcreate2)
#define H5Dget_space (*tmk_hdf5_calls.H5Dget_space)
#define H5Dwrite (*tmk_hdf5_calls.H5Dwrite)
#define H5Eget_auto2 (*tmk_hdf5_calls.H5Eget_auto2)
#define H5Eset_auto2 (*tmk_hdf5_calls.H5Eset_auto2)
#define H5Ewalk2 (*tmk_hdf5_calls.H5Ewalk2)
#define H5Fclose (*tmk_hdf5_calls.H5Fclose)
#define H5Fcreate (*tmk_hdf5_calls.H5Fcreate)
#define H5Gcreate2 (*tmk_hdf5_calls.H5Gcreate2)
#define H5Idec_ref (*tmk_hdf5_calls.H5Idec_ref)
#define H5P_CLS_DATASET_CREATE_ID_g (*tmk_hdf5_calls.H5P_CLS_DATASET_CREATE_ID_g)
#define H5P_CLS_FILE_ACCESS_ID_g (*tmk_hdf5_calls.H5P_CLS_FILE_ACCESS_ID_g)
#define H5P_CLS_FILE_CREATE_ID_g (*tmk_hdf5_calls.H5P_CLS_FILE_CREATE_ID_g)
#define H5P_CLS_GROUP_CREATE_ID_g (*tmk_hdf5_calls.H5P_CLS_GROUP_CREATE_ID_g)
#define H5Pcreate (*tmk_hdf5_calls.H5Pcreate)
#define H5Pset_cache (*tmk_hdf5_calls.H5Pset_cache)
#define H5Pset_chunk (*tmk_hdf5_calls.H5Pset_chunk)
#define H5Pset_fapl_core (*tmk_hdf5_calls.H5Pset_fapl_core)
#define H5Pset_file_image_callbacks (*tmk_hdf5_calls.H5Pset_file_image_callbacks)
#define H5Pset_filter (*tmk_hdf5_calls.H5Pset_filter)
#define H5Pset_libver_bounds (*tmk_hdf5_calls.H5Pset_libver_bounds)
#define H5Pset_obj_track_times (*tmk_hdf5_calls.H5Pset_obj_track_times)
#define H5Screate (*tmk_hdf5_calls.H5Screate)
#define H5Screate_simple (*tmk_hdf5_calls.H5Screate_simple)
#define H5Sselect_hyperslab (*tmk_hdf5_calls.H5Sselect_hyperslab)
#define H5T_C_S1_g (*tmk_hdf5_calls.H5T_C_S1_g)
#define H5T_IEEE_F32LE_g (*tmk_hdf5_calls.H5T_IEEE_F32LE_g)
#define H5T_IEEE_F64LE_g (*tmk_hdf5_calls.H5T_IEEE_F64LE_g)
#define H5T_NATIVE_DOUBLE_g (*tmk_hdf5_calls.H5T_NATIVE_DOUBLE_g)
#define H5T_NATIVE_FLOAT_g (*tmk_hdf5_calls.H5T_NATIVE_FLOAT_g)
#define H5T_NATIVE_INT32_g (*tmk_hdf5_calls.H5T_NATIVE_INT32_g)
#define H5T_NATIVE_INT64_g (*tmk_hdf5_calls.H5T_NATIVE_INT64_g)
#define H5T_NATIVE_UINT16_g (*tmk_hdf5_calls.H5T_NATIVE_UINT16_g)
#define H5T_NATIVE_UINT32_g (*tmk_hdf5_calls.H5T_NATIVE_UINT32_g)
#define H5T_NATIVE_UINT64_g (*tmk_hdf5_calls.H5T_NATIVE_UINT64_g)
#define H5T_NATIVE_UINT8_g (*tmk_hdf5_calls.H5T_NATIVE_UINT8_g)
#define H5T_STD_I32LE_g (*tmk_hdf5_calls.H5T_STD_I32LE_g)
#define H5T_STD_I64LE_g (*tmk_hdf5_calls.H5T_STD_I64LE_g)
#define H5T_STD_U16LE_g (*tmk_hdf5_calls.H5T_STD_U16LE_g)
#define H5T_STD_U32LE_g (*tmk_hdf5_calls.H5T_STD_U32LE_g)
#define H5T_STD_U64LE_g (*tmk_hdf5_calls.H5T_STD_U64LE_g)
#define H5T_STD_U8LE_g (*tmk_hdf5_calls.H5T_STD_U8LE_g)
#define H5Tcopy (*tmk_hdf5_calls.H5Tcopy)
#define H5Tcreate (*tmk_hdf5_calls.H5Tcreate)
#define H5Tinsert (*tmk_hdf5_calls.H5Tinsert)
#define H5Tpack (*tmk_hdf5_calls.H5Tpack)
#define H5Tset_cset (*tmk_hdf5_calls.H5Tset_cset)
#define H5Tset_size (*tmk_hdf5_calls.H5Tset_size)
#define H5Tset_strpad (*tmk_hdf5_calls.H5Tset_strpad)
#define H5Zfilter_avail (*tmk_hdf5_calls.H5Zfilter_avail)
#define H5check_version (*tmk_hdf5_calls.H5check_version)
#define H5dont_atexit (*tmk_hdf5_calls.H5dont_atexit)
#define H5open (*tmk_hdf5_calls.H5open)
#define H5DSattach_scale (*tmk_hdf5_calls.H5DSattach_scale)
#define H5DSset_label (*tmk_hdf5_calls.H5DSset_label)
#define H5DSset_scale (*tmk_hdf5_calls.H5DSset_scale)
#endif

#endif
