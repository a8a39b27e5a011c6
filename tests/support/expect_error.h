#pragma once

#include <gmock/gmock.h>

#include "base/error.h"

// That `statement` throws Error with this code and a message that holds every given part.
#define EXPECT_TANDEM_ERROR(statement, expected_code, ...)                                        \
  try {                                                                                           \
    (void)(statement);                                                                            \
    ADD_FAILURE() << #statement " threw nothing";                                                 \
  } catch (const ::tandem::Error& error) {                                                        \
    EXPECT_EQ(error.code(), expected_code) << error.what();                                       \
    for (const char* part : {__VA_ARGS__}) EXPECT_THAT(error.what(), ::testing::HasSubstr(part)); \
  }
